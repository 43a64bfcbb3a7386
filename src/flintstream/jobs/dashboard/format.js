// Numbers, sizes and times as people read them, in the language and time zone of the browser.

const NOTHING = "–";
const WHOLE = new Intl.NumberFormat();
const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact", maximumSignificantDigits: 3 });
const SMALL = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const PERCENT = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
// Watermarks start below and end above all times; JavaScript's numbers are exact up to here.
const BEYOND = 8.64e15;
// What has three digits, and is rounded to three, has four from here on.
const FOUR_DIGITS = 999.5;
const NEAR_MS = 20 * 3_600_000;

/** Whether a value is a number that can be shown. */
export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** 1234567 as 1,234,567. */
export const whole = (value) => (isNumber(value) ? WHOLE.format(value) : NOTHING);

/** 1234567 as 1.23M; numbers below a thousand with three digits. */
export const compact = (value) => {
  if (!isNumber(value)) return NOTHING;
  return Math.abs(value) < FOUR_DIGITS ? SMALL.format(value) : COMPACT.format(value);
};

/** A rate, such as 12.3K/s. */
export const rate = (value) => (isNumber(value) ? `${compact(value)}/s` : NOTHING);

/** A share between 0 and 1 as a percentage. */
export const percent = (value) => (isNumber(value) ? PERCENT.format(value) : NOTHING);

const ROUGH = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });

/** A number of bytes with a binary unit. */
export function bytes(value, isRough = false) {
  if (!isNumber(value)) return NOTHING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  // From what is rounded to 1000 on, not 1024: four digits are wider than the places they have.
  while (Math.abs(size) >= FOUR_DIGITS && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${(isRough && size < 100 ? ROUGH : SMALL).format(size)} ${units[unit]}`;
}

/** A span of milliseconds in its two largest units: 850 ms, 2.4 s, 3 min 20 s, 5 h 2 min, 4 d 3 h. */
export function duration(value) {
  if (!isNumber(value)) return NOTHING;
  const sign = value < 0 ? "-" : "";
  const ms = Math.abs(value);
  if (ms < FOUR_DIGITS) return `${sign}${SMALL.format(ms)} ms`;
  if (ms < 59_500) return `${sign}${SMALL.format(ms / 1000)} s`;
  const steps = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  let rest = Math.round(ms / 1000);
  const parts = [];
  for (const [unit, seconds] of steps) {
    const count = Math.floor(rest / seconds);
    rest -= count * seconds;
    if (count > 0) parts.push(`${count} ${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return sign + parts.join(" ");
}

/** A moment with date and time of day. */
export const moment = (ms) => (isNumber(ms) && Math.abs(ms) < BEYOND ? MOMENT.format(new Date(ms)) : NOTHING);

/** A moment's time of day. */
export const clock = (ms) => (isNumber(ms) && Math.abs(ms) < BEYOND ? CLOCK.format(new Date(ms)) : NOTHING);

/** A moment, without its date if it is not far from now. */
export const near = (ms, now = Date.now()) => (isNumber(ms) && Math.abs(now - ms) < NEAR_MS ? clock(ms) : moment(ms));

/** How long ago a moment was. */
export function ago(ms, now = Date.now()) {
  if (!isNumber(ms)) return NOTHING;
  const span = now - ms;
  return span < 1500 ? "just now" : `${duration(Math.round(span / 1000) * 1000)} ago`;
}

/** A watermark: a moment, or where it is before the first record and after the last. */
export function watermark(ms) {
  if (!isNumber(ms)) return NOTHING;
  if (ms <= -BEYOND) return "none yet";
  if (ms >= BEYOND) return "end of input";
  return near(ms);
}

/** Any value of a user's metric or state, on one line if it is small. */
export function plain(value) {
  if (value === null || value === undefined) return NOTHING;
  if (typeof value === "number") return Number.isInteger(value) ? whole(value) : SMALL.format(value);
  if (typeof value === "string") return value;
  return JSON.stringify(value, null, 2);
}

/** What a status reads like. */
export const statusText = (status) => String(status ?? "unknown").toLowerCase();

const TONES = {
  RUNNING: "good", FINISHED: "done", CREATED: "wait", INITIALIZING: "wait", RESTARTING: "warn", RECONCILING: "warn",
  FAILING: "bad", FAILED: "bad", CANCELLING: "idle", CANCELED: "idle", STOPPED: "idle", SUSPENDED: "idle",
};

/** The colour family of a status. */
export const tone = (status) => TONES[status] ?? "idle";

const ENDED = new Set(["FINISHED", "FAILED", "CANCELED", "STOPPED"]);

/** Whether a job will do nothing any more. */
export const hasEnded = (status) => ENDED.has(status);
