/** Buffers for large answers, which are made in pieces of one size. Some are kept: to allocate them again costs more. */

/** A piece is full from here on. */
export const pieceBytes = 256 * 1024;
/** Room behind that for the row that fills it; a larger one makes the writer grow. */
const rowBytesUsual = 8 * 1024;
/** Bytes of a buffer. */
export const pieceCapacity = pieceBytes + rowBytesUsual;
/** 16 MiB: two large answers. */
const keptMax = 64;

export class AnswerPieces {
  readonly #kept: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#kept.pop() ?? new Uint8Array(pieceCapacity);
  }

  /** Pieces of an answer that nobody uses any more. */
  keep(pieces: readonly Uint8Array[]): void {
    for (const { buffer } of pieces) {
      if (buffer.byteLength === pieceCapacity && this.#kept.length < keptMax) {
        this.#kept.push(new Uint8Array(buffer));
      }
    }
  }
}
