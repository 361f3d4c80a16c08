// A plot over time, by uPlot. Lines differ by their dashes too; the legend is text, with the values where the pointer is.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { html, render } from "./html.js";

const DASHES = ["", "8 4", "2 3", "10 3 2 3"];
const HEIGHT = 190;
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/**
 * A plot: `element` goes into a template, `show(times, rows)` draws, `close()` ends it.
 *
 * `lines` are `{label, ink}` with a colour of the style sheet; `least` is the least upper end of the axis.
 */
export class Plot {
  constructor({ title, lines, unit, least = 1 }) {
    this._title = title;
    this._lines = lines;
    this._unit = unit;
    this._least = least;
    this._plot = null;
    this._data = null;
    this.element = document.createElement("figure");
    this.element.className = "plot";
    this._caption = this.element.appendChild(document.createElement("figcaption"));
    this._place = this.element.appendChild(document.createElement("div"));
    this._place.setAttribute("aria-hidden", "true");
    this._sizes = new ResizeObserver(() => this._plot?.setSize({ width: this._width(), height: HEIGHT }));
    this._sizes.observe(this.element);
    this._scheme = matchMedia("(prefers-color-scheme: dark)");
    this._again = () => this._plot?.redraw(false);
    this._scheme.addEventListener("change", this._again);
    this._legend();
  }

  /** Draw lines of values (null: a gap) at times in seconds. */
  show(times, rows) {
    this._data = [times, ...rows];
    if (this._plot) this._plot.setData(this._data);
    else if (this.element.isConnected) this._plot = new uPlot(this._options(), this._data, this._place);
    this._legend();
  }

  close() {
    this._sizes.disconnect();
    this._scheme.removeEventListener("change", this._again);
    this._plot?.destroy();
  }

  /** The title and each line's value: where the pointer is, else the last. */
  _legend(place = undefined) {
    const number = place ?? (this._data ? this._data[0].length - 1 : -1);
    const when = place === undefined || place === null ? "now" : CLOCK.format(this._data[0][number] * 1000);
    render(
      html`<strong>${this._title}</strong> <span class="note">${when}:</span>
        ${this._lines.map(
          ({ label, ink }, line) => html`<span class="legend"><svg viewBox="0 0 28 4" aria-hidden="true" data-ink=${ink}><path d="M0 2h28" stroke="currentColor" stroke-width="3" stroke-dasharray=${DASHES[line]}></path></svg>${label} ${this._value(this._data?.[line + 1]?.[number])}</span> `,
        )}`,
      this._caption,
    );
  }

  _options() {
    const soft = () => this._ink("soft");
    const line = () => this._ink("line");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    return {
      width: this._width(),
      height: HEIGHT,
      cursor: { drag: { x: false, y: false } },
      legend: { show: false },
      hooks: { setCursor: [(plot) => this._legend(plot.cursor.idx)] },
      scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, this._least) * 1.05] } },
      axes: [
        { ...axis, space: 80, values: (_, moments) => moments.map((moment) => CLOCK.format(moment * 1000)) },
        { ...axis, size: 64, values: (_, values) => values.map((value) => this._value(value)) },
      ],
      series: [
        {},
        ...this._lines.map(({ ink }, number) => ({
          stroke: () => this._ink(ink),
          dash: DASHES[number] ? DASHES[number].split(" ").map(Number) : [],
          width: 2,
          points: { show: false },
        })),
      ],
    };
  }

  _value(value) {
    return value === null || value === undefined ? "–" : `${Number(value.toPrecision(3))}${this._unit}`;
  }

  _width() {
    return Math.max(240, this.element.clientWidth);
  }

  /** A colour of the style sheet as the canvas needs it: the value for the scheme in use. */
  _ink(name) {
    this._place.dataset.ink = name;
    return getComputedStyle(this._place).color;
  }
}
