// A loop of events in JavaScript whose fourth turn computes.
function price(count) {
  let sum = 0;
  for (let i = 0; i < 1e6; i++) sum += i % count;
  return sum;
}

function total(items) {
  const start = process.cpuUsage().user;
  let sum = 0;
  while (process.cpuUsage().user - start < 9e5) for (const item of items) sum += price(item);
  return sum;
}

let turn = 0;
const timer = setInterval(() => {
  turn++;
  if (turn === 4) total([1, 2, 3]);
  if (turn === 6) clearInterval(timer);
}, 30);
