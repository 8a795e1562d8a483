package io.github.belfryhq.client;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** A request signed as the service signs it. Names of headers are in lower case. */
record Signed(Map<String, String> headers, byte[] body) {
    static final String SECRET = "whsec_b25lLW9uZS1vbmUtb25lLW9uZS1vbmUtb25lLW9uZQ==";

    /** Returns a request with the given headers in place of the usual ones. */
    static Signed of(String payload, Map<String, String> changes) {
        byte[] body = payload.getBytes(StandardCharsets.UTF_8);
        String stamp = String.valueOf(Instant.now().getEpochSecond());
        Map<String, String> headers = new LinkedHashMap<>(Map.of(
                "content-type", "application/json",
                "webhook-id", "msg_1",
                "webhook-timestamp", stamp,
                "webhook-signature", "v1," + signature("msg_1." + stamp + ".", body),
                "ce-id", "msg_1",
                "ce-subject", "order-1042",
                "ce-source", "/v1/queues/q",
                "ce-time", "2026-01-02T03:04:05Z",
                "belfry-attempt", "1",
                "belfry-fence", "7"));
        headers.putAll(changes);
        return new Signed(headers, body);
    }

    private static String signature(String head, byte[] body) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Base64.getDecoder().decode(SECRET.substring(6)), "HmacSHA256"));
            mac.update(head.getBytes(StandardCharsets.UTF_8));
            return Base64.getEncoder().encodeToString(mac.doFinal(body));
        } catch (GeneralSecurityException err) {
            throw new IllegalStateException(err);
        }
    }
}
