package io.github.belfryhq.client;

import java.util.Map;

/**
 * Proves to the receiver of a webhook who sends it: by a token that the cluster signs, the certificate of the nodes with a
 * name, or both. Absent fields are null.
 */
public record Auth(Jwt jwt, String clientCertificate) {
    /** The token of each request. {@code claims} are further ones, and {@code algorithm} is EdDSA or RS256. */
    public record Jwt(String audience, Map<String, Object> claims, String algorithm) {}

    /** Returns a proof by tokens for an audience. */
    public static Auth jwt(String audience) {
        return new Auth(new Jwt(audience, null, null), null);
    }

    /** Returns a proof by a certificate of the nodes. */
    public static Auth certificate(String name) {
        return new Auth(null, name);
    }
}
