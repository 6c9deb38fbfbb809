/** Seats by where they are: squares of a grid, each with its seats. Made once for a plan. */

const PER_SQUARE = 3;

export class Grid {
  private readonly left: number;
  private readonly top: number;
  private readonly size: number;
  private readonly columns: number;
  private readonly rows: number;
  /** Where the seats of each square begin in `items`; one more at the end. */
  private readonly start: Uint32Array;
  private readonly items: Uint32Array;

  constructor(
    private readonly x: Float32Array,
    private readonly y: Float32Array,
  ) {
    const count = x.length;
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < count; i++) {
      if (x[i]! < left) left = x[i]!;
      if (x[i]! > right) right = x[i]!;
      if (y[i]! < top) top = y[i]!;
      if (y[i]! > bottom) bottom = y[i]!;
    }
    this.left = count ? left : 0;
    this.top = count ? top : 0;
    const width = count ? right - left : 0;
    const height = count ? bottom - top : 0;
    const room = Math.max(width * height, ((width + height) ** 2 / 4) * 1e-3, 1e-9);
    this.size = Math.sqrt((room * PER_SQUARE) / Math.max(count, 1));
    this.columns = Math.floor(width / this.size) + 1;
    this.rows = Math.floor(height / this.size) + 1;
    this.start = new Uint32Array(this.columns * this.rows + 1);
    this.items = new Uint32Array(count);
    const square = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const at = this.row(y[i]!) * this.columns + this.column(x[i]!);
      square[i] = at;
      this.start[at + 1]!++;
    }
    for (let at = 1; at < this.start.length; at++) this.start[at]! += this.start[at - 1]!;
    const next = this.start.slice();
    for (let i = 0; i < count; i++) this.items[next[square[i]!]!++] = i;
  }

  private column(x: number): number {
    return Math.min(this.columns - 1, Math.max(0, Math.floor((x - this.left) / this.size)));
  }

  private row(y: number): number {
    return Math.min(this.rows - 1, Math.max(0, Math.floor((y - this.top) / this.size)));
  }

  /** The seat that is nearest to a point, within a distance; -1 where there is none. */
  nearest(x: number, y: number, within: number, skip = -1): number {
    let found = -1;
    let least = within * within;
    const [first, last] = [this.column(x - within), this.column(x + within)];
    const bottom = this.row(y + within);
    for (let row = this.row(y - within); row <= bottom; row++) {
      const from = this.start[row * this.columns + first]!;
      const to = this.start[row * this.columns + last + 1]!;
      for (let at = from; at < to; at++) {
        const i = this.items[at]!;
        const far = (this.x[i]! - x) ** 2 + (this.y[i]! - y) ** 2;
        if (far <= least && i !== skip) {
          least = far;
          found = i;
        }
      }
    }
    return found;
  }

  /** Every seat whose place is no further than this from a point, across and down. */
  within(x: number, y: number, reach: number, found: (index: number) => void): void {
    const [first, last] = [this.column(x - reach), this.column(x + reach)];
    const bottom = this.row(y + reach);
    for (let row = this.row(y - reach); row <= bottom; row++) {
      const to = this.start[row * this.columns + last + 1]!;
      for (let at = this.start[row * this.columns + first]!; at < to; at++) {
        const i = this.items[at]!;
        if (Math.abs(this.x[i]! - x) <= reach && Math.abs(this.y[i]! - y) <= reach) found(i);
      }
    }
  }

  /** How far apart the squares are: a first guess of how far to look. */
  get step(): number {
    return this.size;
  }
}
