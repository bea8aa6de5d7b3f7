/** The seeds of every check. Fresh ones are drawn by `npm run sim`. */
export const fixedSeeds: readonly number[] = Array.from({ length: 60 }, (_, i) => i + 1);
