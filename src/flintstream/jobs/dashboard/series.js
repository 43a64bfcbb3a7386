// Numbers over time out of what a job reported: epochs as points, thinned so that a drawing has no more than it shows.

import { isNumber } from "./format.js";

const MOST_POINTS = 240;
const SMOOTHING_MS = 5000;

/** Put points into at most `most` slices of time, each with one value: of all its values, what `fold` says. */
export function thin(points, fold = mean, most = MOST_POINTS) {
  if (points.length <= most) return points;
  const first = points[0][0];
  const width = (points.at(-1)[0] - first) / most || 1;
  const slices = new Map();
  for (const [at, value] of points) {
    if (!isNumber(value)) continue;
    const slice = Math.min(most - 1, Math.floor((at - first) / width));
    const all = slices.get(slice) ?? { at, values: [] };
    all.at = at;
    all.values.push(value);
    slices.set(slice, all);
  }
  return [...slices.values()].map(({ at, values }) => [at, fold(values)]);
}

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
export const highest = (values) => Math.max(...values);

/** A field of each epoch over the time it was committed. */
export const overEpochs = (epochs, read, fold) => thin(epochs.map((each) => [each.committed_ms, read(each) ?? null]), fold);

/**
 * Records a second out of counts per epoch. Epochs are short and come when they come, so a point is the rate of all
 * epochs of the last seconds, over the time from the commit before the first of them.
 */
export function rates(epochs, field) {
  const points = [];
  let start = 0;
  let sum = 0;
  for (let index = 1; index < epochs.length; index += 1) {
    const at = epochs[index].committed_ms;
    sum += epochs[index][field] ?? 0;
    while (start < index - 1 && epochs[start + 1].committed_ms <= at - SMOOTHING_MS) {
      start += 1;
      sum -= epochs[start][field] ?? 0;
    }
    const span = at - epochs[start].committed_ms;
    if (span > 0) points.push([at, (sum * 1000) / span]);
  }
  return thin(points);
}
