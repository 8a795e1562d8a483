import { bodyOf, type Delivery, type Receiver, refusalOf } from "./receiver.js";

/** The parts of Express's types that the middleware needs, so that the package depends on no version of it. */
interface Request extends AsyncIterable<Uint8Array> {
  headers: Record<string, string | string[] | undefined>;
  body?: unknown;
}
interface Response {
  locals: Record<string, unknown>;
  status(code: number): { type(kind: string): { send(body: string): unknown } };
}

/**
 * Returns Express middleware that verifies a delivery, and hands it on as `res.locals.delivery`. It reads the body
 * itself, or takes the bytes of `express.raw()`. A body that `express.json()` has parsed cannot be verified any more.
 */
export function belfry(receiver: Receiver): (req: Request, res: Response, next: (err?: unknown) => void) => void {
  return (req, res, next) => {
    void (async () => {
      if (req.body !== undefined && !(req.body instanceof Uint8Array)) {
        throw new TypeError(
          "the body was parsed before its signature was verified: put belfry() before express.json()",
        );
      }
      let delivery: Delivery;
      try {
        delivery = await receiver.verify(req.headers, req.body ?? (await bodyOf(req, receiver.maxBody)));
      } catch (err) {
        const { status, text } = refusalOf(err);
        res.status(status).type("text/plain").send(text);
        return;
      }
      res.locals["delivery"] = delivery;
      next();
    })().catch(next);
  };
}
