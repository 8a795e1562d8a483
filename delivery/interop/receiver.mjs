// This is a receiver with the public libraries and without Belfry's code. It writes a line of JSON to standard output
// for each accepted request, and ends when its input ends.
//
// The path of a request names the secret that the receiver uses: /old, /new, … of the object in SECRETS.
import { createServer } from "node:http";
import { createHmac, timingSafeEqual } from "node:crypto";
import { HTTP } from "cloudevents";
import { Webhook } from "standardwebhooks";

const secrets = JSON.parse(process.env.SECRETS);

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    try {
      const verifiedBy = verify(secrets[request.url.slice(1)], request.headers, body);
      accept(request, response, body, verifiedBy);
    } catch (error) {
      response.writeHead(error.name === "WebhookVerificationError" ? 401 : 400).end(error.message);
    }
  });
});

// verify throws unless the request is signed with the secret. The library treats a body as text and cannot
// verify a body that is not UTF-8, so this function follows the standard itself.
function verify(secret, headers, body) {
  if (isText(body)) {
    new Webhook(secret).verify(body, headers, { jsonParse: false });
    return "standardwebhooks";
  }
  const mac = createHmac("sha256", Buffer.from(secret.replace(/^whsec_/, ""), "base64"));
  mac.update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`);
  const want = Buffer.from("v1," + mac.update(body).digest("base64"));
  const signatures = headers["webhook-signature"].split(" ").map((signature) => Buffer.from(signature));
  if (!signatures.some((got) => got.length === want.length && timingSafeEqual(got, want))) {
    throw new Error("no signature fits");
  }
  return "hmac";
}

function isText(body) {
  return Buffer.from(body.toString("utf8"), "utf8").equals(body);
}

function accept(request, response, body, verifiedBy) {
  const message = { headers: request.headers, body: isText(body) ? body.toString() : body };
  const events = HTTP.toEvent(message);
  const batch = Array.isArray(events);
  for (const event of batch ? events : [events]) event.validate();
  say({ verifiedBy, batch, headers: request.headers, events: batch ? events.map(plain) : [decoded(events)] });
  if (!batch) {
    response.writeHead(204).end();
    return;
  }
  response.writeHead(207, { "content-type": "application/json" });
  response.end(JSON.stringify({ results: events.map(({ id, data }) => ({ id, status: 200, ...data?.answer })) }));
}

// plain returns an event as an object. Its data is JSON in a string, or base64 for bytes.
function plain(event) {
  const { data, data_base64, ...attributes } = event;
  if (data_base64 !== undefined) return { ...attributes, data_base64 };
  return { ...attributes, ...(data !== undefined && data !== "" && { data: JSON.stringify(data) }) };
}

// decoded decodes the attributes that the HTTP binding encodes in headers, since the SDK does not decode them.
function decoded(event) {
  const attributes = plain(event);
  for (const name of ["id", "source", "subject"]) attributes[name] = decodeURIComponent(attributes[name]);
  return attributes;
}

function say(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

server.listen(0, "127.0.0.1", () => say({ port: server.address().port }));
process.stdin.resume().on("end", () => process.exit(0));
