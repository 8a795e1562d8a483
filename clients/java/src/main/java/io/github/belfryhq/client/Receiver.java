package io.github.belfryhq.client;

import io.github.belfryhq.client.Delivery.DeliveredTask;
import io.github.belfryhq.client.VerificationException.Reason;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigInteger;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies deliveries: the signature by any of the secrets, the timestamp and the fence. Any number of threads may use it. */
public final class Receiver {
    private static final String ALGORITHM = "HmacSHA256";

    private final List<SecretKeySpec> keys;
    private final Duration tolerance;
    private final Fences fences;
    private final int maxBody;
    private final Clock clock;
    private final Codec codec;

    private Receiver(Builder builder) {
        keys = builder.keys;
        tolerance = builder.tolerance;
        fences = builder.fences;
        maxBody = builder.maxBody;
        clock = builder.clock;
        codec = builder.codec;
    }

    /**
     * Returns a builder for the secrets of a queue, each {@code whsec_} and base64: two during a change of the secret.
     *
     * @throws IllegalArgumentException if there is no secret, or one has another form
     */
    public static Builder builder(String... secrets) {
        return new Builder(secrets);
    }

    /** The settings of a receiver. */
    public static final class Builder {
        private final List<SecretKeySpec> keys = new ArrayList<>();
        private Duration tolerance = Duration.ofMinutes(5);
        private Fences fences = Fences.inMemory(100_000);
        private int maxBody = 16 << 20;
        private Clock clock = Clock.systemUTC();
        private Codec codec = Codec.RECORDS;

        private Builder(String... secrets) {
            for (String secret : secrets) {
                keys.add(keyOf(secret, keys.size()));
            }
            if (keys.isEmpty()) {
                throw new IllegalArgumentException("there is no secret");
            }
        }

        /** Sets the largest difference of the sender's clock. Default 5 minutes. */
        public Builder tolerance(Duration tolerance) {
            this.tolerance = tolerance;
            return this;
        }

        /** Sets the memory of fences. Default: of the last 100,000 tasks, in this process. */
        public Builder fences(Fences fences) {
            this.fences = fences;
            return this;
        }

        /** Bounds the bytes of a body. Default 16 MiB. */
        public Builder maxBody(int bytes) {
            this.maxBody = bytes;
            return this;
        }

        public Builder clock(Clock clock) {
            this.clock = clock;
            return this;
        }

        /** Sets the codec of payloads. Default {@link Codec#RECORDS}. */
        public Builder codec(Codec codec) {
            this.codec = codec;
            return this;
        }

        public Receiver build() {
            return new Receiver(this);
        }
    }

    /** Returns the key of a secret. The message of a failure has nothing of it. */
    private static SecretKeySpec keyOf(String secret, int place) {
        try {
            if (secret != null && secret.startsWith("whsec_") && secret.length() > 6) {
                return new SecretKeySpec(Base64.getDecoder().decode(secret.substring(6)), ALGORITHM);
            }
        } catch (IllegalArgumentException err) {
            // refused below, without the cause, whose text names a character of the secret
        }
        throw new IllegalArgumentException("secret " + place + " is not whsec_ and base64");
    }

    /** Reads a body up to the receiver's limit. */
    public byte[] bodyOf(InputStream in) throws IOException {
        return bounded(in.readNBytes(maxBody + 1));
    }

    private byte[] bounded(byte[] body) {
        if (body.length > maxBody) {
            throw new VerificationException(Reason.TOO_LARGE, "the body is over " + maxBody + " bytes");
        }
        return body;
    }

    /**
     * Returns the delivery of a request.
     *
     * @param header returns the value of a header by its name in lower case, or null
     * @param body the whole body, as it came
     * @throws VerificationException if the request is to be refused
     */
    public Delivery verify(UnaryOperator<String> header, byte[] body) {
        UnaryOperator<String> present = name -> {
            String value = header.apply(name);
            return value == null ? "" : value;
        };
        bounded(body);
        String id = present.apply("webhook-id");
        String stamp = present.apply("webhook-timestamp");
        if (id.isEmpty() || id.contains(".")) {
            throw malformed("webhook-id is absent, or has a dot");
        }
        if (!stamp.matches("0|[1-9]\\d{0,11}")) {
            throw malformed("webhook-timestamp is not a number of seconds");
        }
        if (!signed(id + "." + stamp + ".", body, present.apply("webhook-signature"))) {
            throw new VerificationException(Reason.SIGNATURE, "no signature of the request is right");
        }
        Instant sentAt = Instant.ofEpochSecond(Long.parseLong(stamp));
        if (Duration.between(sentAt, clock.instant()).abs().compareTo(tolerance) > 0) {
            throw new VerificationException(Reason.TIMESTAMP, "the request was not sent just now");
        }
        List<DeliveredTask> tasks = new ArrayList<>();
        for (DeliveredTask task : tasksOf(present, body)) {
            boolean stale = !fences.raise(task.task(), task.fence());
            tasks.add(new DeliveredTask(task.task(), task.webhookId(), task.source(), task.attempt(), task.fence(),
                    task.due(), task.payload(), stale));
        }
        if (tasks.size() == 1 && tasks.get(0).stale()) {
            throw new VerificationException(Reason.STALE, "a newer attempt of task " + tasks.get(0).task() + " came before");
        }
        return new Delivery(List.copyOf(tasks), sentAt, body);
    }

    private boolean signed(String head, byte[] body, String signatures) {
        for (SecretKeySpec key : keys) {
            byte[] wanted;
            try {
                Mac mac = Mac.getInstance(ALGORITHM);
                mac.init(key);
                mac.update(head.getBytes(StandardCharsets.UTF_8));
                wanted = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.US_ASCII);
            } catch (GeneralSecurityException err) {
                throw new IllegalStateException(err); // each Java runtime has this algorithm
            }
            for (String signature : signatures.split(" ")) {
                if (MessageDigest.isEqual(wanted, signature.getBytes(StandardCharsets.UTF_8))) {
                    return true;
                }
            }
        }
        return false;
    }

    private List<DeliveredTask> tasksOf(UnaryOperator<String> header, byte[] body) {
        String kind = header.apply("content-type").split(";")[0].trim();
        if (!kind.equals("application/cloudevents-batch+json")) {
            boolean json = body.length > 0 && (kind.equals("application/json") || kind.endsWith("+json"));
            return List.of(taskOf(
                    header.apply("ce-id"),
                    subjectOf(header.apply("ce-subject")),
                    header.apply("ce-source"),
                    header.apply("ce-time"),
                    header.apply("belfry-attempt"),
                    header.apply("belfry-fence"),
                    json ? parse(body) : null));
        }
        List<DeliveredTask> tasks = new ArrayList<>();
        if (parse(body).value() instanceof List<?> events) {
            for (Object event : events) {
                Json json = Json.of(event);
                tasks.add(taskOf(text(json, "id"), text(json, "subject"), text(json, "source"), text(json, "time"),
                        text(json, "belfryattempt"), text(json, "belfryfence"), json.get("data")));
            }
        }
        if (tasks.isEmpty()) {
            throw malformed("the batch is not an array of events");
        }
        return tasks;
    }

    private static String text(Json event, String name) {
        Object value = event.get(name).value();
        return value == null ? "" : value.toString();
    }

    /** CloudEvents percent-encodes headers. */
    private static String subjectOf(String text) {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException err) {
            throw malformed("ce-subject is not percent-encoded as it should be");
        }
    }

    private static Json parse(byte[] body) {
        try {
            return Json.parse(new String(body, StandardCharsets.UTF_8));
        } catch (IllegalArgumentException err) {
            throw malformed("the body is not JSON");
        }
    }

    private DeliveredTask taskOf(
            String webhookId, String task, String source, String due, String attempt, String fence, Json payload) {
        if (webhookId.isEmpty() || task.isEmpty()) {
            throw malformed("the delivery has no id, or no subject");
        }
        if (!fence.matches("\\d{1,20}") || !attempt.matches("\\d{1,9}")) {
            throw malformed("the fence or the attempt is absent, or is not a number");
        }
        try {
            Instant instant = OffsetDateTime.parse(due).toInstant();
            return new DeliveredTask(task, webhookId, source, Integer.parseInt(attempt), new BigInteger(fence), instant,
                    payload == null ? null : new Payload(payload, codec), false);
        } catch (DateTimeParseException err) {
            throw malformed("the due time is absent, or is not an instant");
        }
    }

    private static VerificationException malformed(String text) {
        return new VerificationException(Reason.MALFORMED, text);
    }
}
