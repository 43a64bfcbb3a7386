// The manager's REST interface as functions. The only file that knows paths and the shapes of answers.

const ROOT = "v1";
const TOKEN = "flintstream.token";
const PATIENCE_MS = 20_000;
const POLL_MS = 400;

/** What went wrong, in the manager's words: title, detail and what to do about it. */
export class Problem extends Error {
  constructor({ title = "The request failed", detail = "", remedy = "", status = 0, answer = null } = {}) {
    super(detail || title);
    Object.assign(this, { title, detail, remedy, status, answer });
  }
}

const watchers = new Set();

/** Call `react` whenever the manager demands a token. */
export function onTokenNeeded(react) {
  watchers.add(react);
}

const remembered = () => {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
};

function remember(token) {
  try {
    if (token === null) sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, token);
  } catch {
    // the cookie alone carries the session then
  }
}

async function ask(method, path, body) {
  const headers = { Accept: "application/json" };
  const token = remembered();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`${ROOT}/${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch {
    throw new Problem({
      title: "The manager does not answer",
      detail: "There was no answer to the request.",
      remedy: "See whether it runs: flintstream cluster status",
    });
  }
  const content = await read(answer);
  if (answer.ok) return content;
  const problem = problemOf(answer.status, content);
  if (answer.status === 401 && path !== "session") for (const react of watchers) react(problem);
  throw problem;
}

async function read(answer) {
  const text = await answer.text().catch(() => "");
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return { detail: text.slice(0, 500) };
  }
}

function problemOf(status, content) {
  const known = content && typeof content === "object" ? content : {};
  const detail = typeof known.detail === "string" ? known.detail : known.detail ? JSON.stringify(known.detail) : "";
  return new Problem({
    title: known.title || `The manager answered ${status}`,
    detail,
    remedy: typeof known.remedy === "string" ? known.remedy : "",
    status,
    answer: known.answer ?? null,
  });
}

const of = (job) => `jobs/${encodeURIComponent(job)}`;
const list = (answer, name) => (Array.isArray(answer) ? answer : (answer?.[name] ?? []));
const query = (values) => {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
};
const stateOf = (job, state) => `${of(job)}/state/${encodeURIComponent(state.operator)}/${encodeURIComponent(state.name)}`;

export const overview = () => ask("GET", "overview");
export const jobs = async () => list(await ask("GET", "jobs"), "jobs");
export const job = (id) => ask("GET", of(id));
export const status = async (id) => (await ask("GET", `${of(id)}/status`)) ?? {};
export const plan = (id) => ask("GET", `${of(id)}/plan`);
export const epochs = async (id, since) => list(await ask("GET", `${of(id)}/epochs${query({ since })}`), "epochs");
export const exceptions = async (id) => list(await ask("GET", `${of(id)}/exceptions`), "exceptions");
export const savepoints = async (id) => list(await ask("GET", `${of(id)}/savepoints`), "savepoints");
export const log = (id, stream, offset, limit) => ask("GET", `${of(id)}/logs/${stream}${query({ offset, limit })}`);
export const configuration = async (id) => {
  const answer = await ask("GET", `${of(id)}/configuration`);
  return answer?.configuration ?? answer ?? {};
};

export const states = async (id) => list(await ask("GET", `${of(id)}/state`), "states");
/** What a key has; that it has nothing is an answer too. */
export const lookUp = (id, state, key, options) =>
  ask("GET", `${stateOf(id, state)}/${encodeURIComponent(key)}${query(options)}`).catch((problem) => {
    if (problem.answer) return problem.answer;
    throw problem;
  });
export const scan = (id, state, options) => ask("GET", `${stateOf(id, state)}${query(options)}`);

export const eventsPath = (id) => (id ? `${ROOT}/${of(id)}/events` : `${ROOT}/events`);
export const watchPath = (id, state, key) => `${ROOT}/${stateOf(id, state)}/${encodeURIComponent(key)}/watch`;

/** Open a session with a token; the manager answers with a cookie, which streams of events need. */
export async function logIn(token) {
  remember(null);
  await ask("POST", "session", { token });
  remember(token);
}

/** Ask for the cookie again if there is a token: it does not live as long as the tab may. */
export async function renewSession() {
  const token = remembered();
  if (token) await ask("POST", "session", { token }).catch(() => {});
}

export const cancel = (id) => act(`${of(id)}/cancel`, {});
export const stop = (id, drain) => act(`${of(id)}/stop`, { drain });
export const takeSavepoint = (id, comment) => act(`${of(id)}/savepoints`, comment ? { comment } : {});
export const rescale = (id, wanted) => act(`${of(id)}/rescale`, wanted);
export const restart = (id, savepoint, allowNonRestored) =>
  act(`${of(id)}/restart`, { savepoint, allow_non_restored: allowNonRestored });
export const forget = (id) => ask("DELETE", of(id));

/** Post, and follow the operation that the manager made of it to its end; returns the operation's result. */
async function act(path, body) {
  let operation = await ask("POST", path, body);
  while (operation?.id && isUnderWay(operation)) {
    await new Promise((wake) => setTimeout(wake, POLL_MS));
    operation = await ask("GET", `operations/${encodeURIComponent(operation.id)}`);
  }
  if (operation?.status === "failed" || operation?.problem) {
    throw problemOf(operation.problem?.status ?? 0, operation.problem ?? { detail: "The operation failed." });
  }
  return operation?.result ?? operation;
}

const isUnderWay = (operation) => ["running", "pending", "accepted"].includes(operation.status);
