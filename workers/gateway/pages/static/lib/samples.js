// The fleet's counters over time. The gateway keeps no history, so this page samples `/metrics` while it is open.

import { getText, signedIn } from "./api.js";

export const SECONDS = 5;
const MOST = 720; // an hour

const BUCKET = "fleethook_verdict_duration_seconds_bucket";

/** Every sample, the oldest first: `{at, verdicts, deliveries, buckets, lag, pending, due, dead, failOpen, failClosed}`. */
export const samples = [];

/** Tells with an event `sample` that there is a new one, and with `failed` that there is none. */
export const sampler = new EventTarget();

let timer = 0;

/** Sample now, and go on while other views are open. */
export function startSampling() {
  take();
  timer ||= setInterval(() => document.hidden || take(), SECONDS * 1000);
}

signedIn.addEventListener("ended", () => {
  clearInterval(timer);
  timer = 0;
  samples.length = 0;
});

async function take() {
  try {
    samples.push(sample(parse(await getText("metrics")), Date.now() / 1000));
    if (samples.length > MOST) samples.shift();
    sampler.dispatchEvent(new Event("sample"));
  } catch (error) {
    sampler.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }
}

/** The lines of Prometheus' text format as `{name, labels, value}`. */
export function parse(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

function sample(rows, at) {
  const sum = (name) => rows.filter((row) => row.name === name).reduce((total, { value }) => total + value, 0);
  const by = (name, label) => {
    const found = {};
    for (const row of rows) if (row.name === name) found[row.labels[label]] = (found[row.labels[label]] ?? 0) + row.value;
    return found;
  };
  return {
    at,
    verdicts: by("fleethook_verdicts_total", "verdict"),
    deliveries: by("fleethook_deliveries_total", "outcome"),
    buckets: by(BUCKET, "le"),
    lag: sum("fleethook_stream_lag_messages"),
    pending: sum("fleethook_stream_pending_messages"),
    due: sum("fleethook_deliveries_due"),
    dead: sum("fleethook_dlq_messages"),
    failOpen: sum("fleethook_fail_open_total"),
    failClosed: sum("fleethook_fail_closed_total"),
  };
}

/** The rise per second of a counter between two samples; 0 where it is new, null where it was reset. */
export function rate(before, after, read) {
  const rise = (read(after) ?? 0) - (read(before) ?? 0);
  return rise < 0 ? null : rise / (after.at - before.at);
}

/**
 * A quantile, in milliseconds, of the verdicts between two samples; null where there was none.
 *
 * The truth lies between the bounds of a bucket of the histogram; within it the values are taken as evenly spread.
 */
export function quantile(before, after, part) {
  const rises = Object.keys(after.buckets)
    .map((bound) => [bound === "+Inf" ? Infinity : Number(bound), after.buckets[bound] - (before.buckets[bound] ?? 0)])
    .sort(([one], [other]) => one - other);
  const all = rises.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  let [low, below] = [0, 0];
  for (const [bound, upTo] of rises) {
    if (upTo >= part * all) {
      if (bound === Infinity) return low * 1000;
      return 1000 * (low + ((bound - low) * (part * all - below)) / (upTo - below || 1));
    }
    [low, below] = [bound, upTo];
  }
  return null;
}
