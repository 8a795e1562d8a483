package io.github.belfryhq.client;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads a JSON text. */
final class JsonReader {
    private static final int MAX_DEPTH = 512;

    private final String text;
    private int at;
    private int depth;

    JsonReader(String text) {
        this.text = text;
    }

    /** Returns the value of the whole text. */
    Object document() {
        Object value = value();
        peek();
        if (at < text.length()) {
            throw wrong();
        }
        return value;
    }

    private Object value() {
        return switch (peek()) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> map = new LinkedHashMap<>();
        enter();
        if (!skip('}')) {
            do {
                if (peek() != '"') {
                    throw wrong();
                }
                String name = string();
                expect(':');
                map.put(name, value());
            } while (skip(','));
            expect('}');
        }
        depth--;
        return map;
    }

    private List<Object> array() {
        List<Object> list = new ArrayList<>();
        enter();
        if (!skip(']')) {
            do {
                list.add(value());
            } while (skip(','));
            expect(']');
        }
        depth--;
        return list;
    }

    private void enter() {
        at++;
        if (++depth > MAX_DEPTH) {
            throw wrong();
        }
    }

    private String string() {
        int begin = ++at;
        while (at < text.length() && text.charAt(at) != '"' && text.charAt(at) != '\\' && text.charAt(at) >= ' ') {
            at++;
        }
        if (at < text.length() && text.charAt(at) == '"') {
            return text.substring(begin, at++);
        }
        StringBuilder out = new StringBuilder().append(text, begin, at);
        for (char c = next(); c != '"'; c = next()) {
            if (c < ' ') {
                throw wrong();
            }
            out.append(c == '\\' ? escaped() : c);
        }
        return out.toString();
    }

    private char escaped() {
        char c = next();
        if (c == 'u') {
            int code = 0;
            for (int i = 0; i < 4; i++) {
                int digit = Character.digit(next(), 16);
                if (digit < 0) {
                    throw wrong();
                }
                code = code << 4 | digit;
            }
            return (char) code;
        }
        int place = "\"\\/bfnrt".indexOf(c);
        if (place < 0) {
            throw wrong();
        }
        return "\"\\/\b\f\n\r\t".charAt(place);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong();
        }
        at += word.length();
        return value;
    }

    private Number number() {
        int begin = at;
        accept('-');
        int first = at;
        int digits = digits();
        if (digits > 1 && text.charAt(first) == '0') {
            throw wrong();
        }
        boolean integer = true;
        if (accept('.')) {
            integer = false;
            digits();
        }
        if (accept('e') || accept('E')) {
            integer = false;
            if (!accept('+')) {
                accept('-');
            }
            digits();
        }
        String number = text.substring(begin, at);
        if (!integer) {
            return new BigDecimal(number);
        }
        if (digits <= 18) {
            return Long.valueOf(number);
        }
        BigInteger big = new BigInteger(number);
        return big.bitLength() < Long.SIZE ? (Number) big.longValue() : big;
    }

    private int digits() {
        int begin = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == begin) {
            throw wrong();
        }
        return at - begin;
    }

    /** Skips white space, and returns the next character, or 0 at the end. */
    private char peek() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private boolean skip(char c) {
        return peek() == c && accept(c);
    }

    private boolean accept(char c) {
        if (at < text.length() && text.charAt(at) == c) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char c) {
        if (!skip(c)) {
            throw wrong();
        }
    }

    private char next() {
        if (at >= text.length()) {
            throw wrong();
        }
        return text.charAt(at++);
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("the text is not JSON at character " + at);
    }
}
