/** ISO-8601 times in microseconds since 1970-01-01 UTC: what clients may send, and what the broker answers. */

const form = /^(\d{4})-(\d{2})-(\d{2})(?:T(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?)?(?:(Z)|([+-])(\d{2}):(\d{2}))?$/;

const usPerSecond = 1_000_000;
const usPerMinute = 60 * usPerSecond;

/**
 * Reads `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM`, `…:SS` or `…:SS.fraction`, each with an optional `Z` or `±HH:MM`; without a
 * zone it is UTC. Digits beyond the microsecond are cut. Undefined for anything else, impossible dates included.
 */
export function parseIsoTime(text: string): number | undefined {
  const parts = form.exec(text);
  if (parts === null) return undefined;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = ''] = parts;
  const zoneHours = Number(parts[10] ?? 0);
  const zoneMinutes = Number(parts[11] ?? 0);
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  if (zoneHours > 23 || zoneMinutes > 59) return undefined;
  // Date.UTC takes the years 0 to 99 for 1900 to 1999, so the year is set apart.
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined;
  const dayUs = date.getTime() * 1000;
  const timeUs = (Number(hour) * 60 + Number(minute)) * usPerMinute + Number(second) * usPerSecond;
  const fractionUs = Number(fraction.slice(0, 6).padEnd(6, '0'));
  const zoneUs = (zoneHours * 60 + zoneMinutes) * usPerMinute;
  return dayUs + timeUs + fractionUs - (parts[9] === '-' ? -zoneUs : zoneUs);
}

/** The form of every time in an answer: UTC, six fractional digits, `Z`. `us` lies between the years 0 and 9999. */
export function isoTime(us: number): string {
  const second = Math.floor(us / usPerSecond);
  const fraction = String(us - second * usPerSecond).padStart(6, '0');
  return `${new Date(second * 1000).toISOString().slice(0, 19)}.${fraction}Z`;
}
