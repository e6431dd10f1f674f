/** A canvas that is as sharp as the screen, drawn at most once a frame and only when something changed. */

export class Sheet {
  readonly context: CanvasRenderingContext2D;
  width = 0;
  height = 0;

  constructor(readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d");
    if (!context) throw new Error("this browser cannot draw on a canvas");
    this.context = context;
  }

  /** Sets its size in CSS pixels; clears it only if that changed. */
  resize(width: number, height: number): void {
    const ratio = window.devicePixelRatio || 1;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== across || this.canvas.height !== down) {
      this.canvas.width = across;
      this.canvas.height = down;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    [this.width, this.height] = [width, height];
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  clear(): void {
    this.context.clearRect(0, 0, this.width, this.height);
  }
}

/** Calls back in the next frame, once, however often it is asked to. */
export class Frame {
  #waiting = 0;

  constructor(readonly draw: () => void) {}

  request(): void {
    this.#waiting ||= requestAnimationFrame(() => {
      this.#waiting = 0;
      this.draw();
    });
  }

  cancel(): void {
    cancelAnimationFrame(this.#waiting);
    this.#waiting = 0;
  }
}
