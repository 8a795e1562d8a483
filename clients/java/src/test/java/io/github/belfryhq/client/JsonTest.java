package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @ParameterizedTest
    @ValueSource(strings = {
        "null", "true", "false", "0", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
        "1.5", "-0.25", "\"\"", "\"größer 中文 😀\"", "[]", "{}", "[1,[2,{\"a\":null}]]", "{\"b\":1,\"a\":{\"c\":[]}}",
        "\"\\u0001\\\"\\\\\"", "\"\\ud800\""
    })
    void textsStayAsTheyAre(String text) {
        assertEquals(text, Json.parse(text).toString());
    }

    @Test
    void numbersAreExact() {
        Json json = Json.parse(" { \"fence\" : 18446744073709551615 , \"small\":7, \"x\":1e2, \"y\":0.12345678901234567890 } ");
        assertEquals(new BigInteger("18446744073709551615"), json.get("fence").value());
        assertEquals(7L, json.get("small").value());
        assertEquals(100, json.get("x").asLong());
        assertEquals(new BigDecimal("0.12345678901234567890"), json.get("y").asBigDecimal());
        assertThrows(ArithmeticException.class, () -> json.get("y").asLong());
        assertThrows(ArithmeticException.class, () -> json.get("fence").asLong());
    }

    @Test
    void escapesAreRead() {
        assertEquals("a\"\\/\b\f\n\r\tä😀", Json.parse("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E4\\ud83d\\ude00\"").asString());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", " ", "nul", "tru", "01", "-", "1.", ".5", "1e", "+1", "NaN", "\"", "\"\\x\"", "\"\\u12g4\"", "\"\n\"", "[1,]", "[1 2]",
        "{\"a\"}", "{\"a\":1,}", "{a:1}", "1 2", "{} ,", "[", "{\"a\":", "1\0"
    })
    void otherTextsAreRefusedAndNotShown(String text) {
        String message = assertThrows(IllegalArgumentException.class, () -> Json.parse(text)).getMessage();
        assertEquals("the text is not JSON at character", message.replaceAll(" \\d+$", ""));
    }

    @Test
    void nestingIsBounded() {
        assertEquals(1, Json.parse("[".repeat(512) + "]".repeat(512)).size());
        assertThrows(IllegalArgumentException.class, () -> Json.parse("[".repeat(100_000)));
    }

    @Test
    void absentMembersAreNull() {
        Json json = Json.of(Map.of("a", List.of("x")));
        assertEquals("x", json.get("a").get(0).asString());
        assertEquals(Json.of(null), json.get("b").get("c"));
        assertFalse(json.get("a").isNull());
        assertThrows(IllegalStateException.class, () -> json.get("a").asString());
    }

    @Test
    void valuesWithoutAFormAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.of(Double.NaN).toString());
        assertThrows(IllegalArgumentException.class, () -> Json.of(new Object()).toString());
    }
}
