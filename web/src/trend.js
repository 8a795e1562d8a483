// The trends of figures of which the cluster keeps no history: the page remembers their values while it is open.
const most = 180; // values
const stepMs = 5000;
const trends = new Map();

// remember adds the present value of a figure, at most one each five seconds, and returns its values so far.
export function remember(name, value, atMs) {
  if (!trends.has(name)) trends.set(name, []);
  const trend = trends.get(name);
  const last = trend.at(-1);
  if (!last || atMs - last.at >= stepMs) trend.push({ at: atMs, value });
  if (trend.length > most) trend.shift();
  return trend;
}
