import { createHmac } from "node:crypto";

/** Signs requests as the service does. */
export const signed = {
  secret: "whsec_b25lLW9uZS1vbmUtb25lLW9uZS1vbmUtb25lLW9uZQ==",

  request(
    payload: unknown,
    changes: Record<string, string> = {},
    at = Date.now(),
  ): { headers: Record<string, string>; body: string } {
    const body = JSON.stringify(payload);
    const stamp = String(Math.floor(at / 1_000));
    const key = Buffer.from(this.secret.slice(6), "base64");
    const signature = createHmac("sha256", key).update(`msg_1.${stamp}.${body}`).digest("base64");
    return {
      body,
      headers: {
        "content-type": "application/json",
        "webhook-id": "msg_1",
        "webhook-timestamp": stamp,
        "webhook-signature": `v1,${signature}`,
        "ce-id": "msg_1",
        "ce-subject": "order-1042",
        "ce-source": "/v1/queues/q",
        "ce-time": "2026-01-02T03:04:05Z",
        "belfry-attempt": "1",
        "belfry-fence": "7",
        ...changes,
      },
    };
  },
};
