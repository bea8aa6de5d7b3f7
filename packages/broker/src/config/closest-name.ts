/** Edits (insert, delete, replace one character) that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, previous[j] + 1, row[j - 1] + 1));
    }
    previous = row;
  }
  return previous[b.length];
}

const distanceMax = 3;

/** The name that `mistyped` was probably meant to be; undefined when none is near. Ties go to the first. */
export function closestName(mistyped: string, names: readonly string[]): string | undefined {
  let closest: string | undefined;
  let distance = distanceMax + 1;
  for (const name of names) {
    const each = editDistance(mistyped.toLowerCase(), name.toLowerCase());
    if (each < distance) {
      distance = each;
      closest = name;
    }
  }
  return closest;
}
