package hushgram.client;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON, as far as manifests, the ledger and `hushgram conform` need it.
 *
 * <p>Read are Map, List, String, Boolean, null, Long for a number of up to 18 digits without a fraction or an exponent, and
 * Double for all others: no whole number that a client reads is one of those.
 */
final class Json {
    private static final int DEEPEST = 64;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object read(byte[] utf8) {
        try {
            return read(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(utf8)).toString());
        } catch (CharacterCodingException error) {
            throw new RefusedException("not UTF-8");
        }
    }

    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.skipSpace();
        json.need(json.at == text.length());
        return value;
    }

    private Object value(int depth) {
        need(depth < DEEPEST);
        skipSpace();
        switch (peek()) {
            case '{':
                return object(depth);
            case '[':
                return array(depth);
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> entries = new LinkedHashMap<>();
        at++;
        skipSpace();
        if (take('}')) {
            return entries;
        }
        do {
            skipSpace();
            need(peek() == '"');
            String name = string();
            skipSpace();
            need(take(':'));
            need(!entries.containsKey(name)); // readers would not agree on which of them holds
            entries.put(name, value(depth + 1));
            skipSpace();
        } while (take(','));
        need(take('}'));
        return entries;
    }

    private List<Object> array(int depth) {
        List<Object> items = new ArrayList<>();
        at++;
        skipSpace();
        if (take(']')) {
            return items;
        }
        do {
            items.add(value(depth + 1));
            skipSpace();
        } while (take(','));
        need(take(']'));
        return items;
    }

    private String string() {
        StringBuilder read = new StringBuilder();
        at++;
        while (true) {
            char next = peek();
            need(next >= ' ');
            at++;
            if (next == '"') {
                return read.toString();
            }
            read.append(next == '\\' ? escaped() : next);
        }
    }

    private char escaped() {
        char letter = peek();
        at++;
        switch (letter) {
            case '"':
            case '\\':
            case '/':
                return letter;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            default:
                need(letter == 'u' && at + 4 <= text.length());
                int code = 0;
                for (int end = at + 4; at < end; at++) {
                    char digit = text.charAt(at);
                    need(digit < 128 && Character.digit(digit, 16) >= 0);
                    code = 16 * code + Character.digit(digit, 16);
                }
                return (char) code;
        }
    }

    private Object number() {
        int start = at;
        take('-');
        int digits = at;
        digits();
        need(text.charAt(digits) != '0' || at == digits + 1);
        boolean whole = true;
        if (take('.')) {
            digits();
            whole = false;
        }
        if (take('e') || take('E')) {
            if (!take('+')) {
                take('-');
            }
            digits();
            whole = false;
        }
        String number = text.substring(start, at);
        if (whole && at - digits <= 18) {
            return Long.valueOf(number);
        }
        return Double.valueOf(number);
    }

    private void digits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        need(at > start);
    }

    private Object word(String word, Object meaning) {
        need(text.startsWith(word, at));
        at += word.length();
        return meaning;
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        need(at < text.length());
        return text.charAt(at);
    }

    private boolean take(char wanted) {
        boolean there = at < text.length() && text.charAt(at) == wanted;
        at += there ? 1 : 0;
        return there;
    }

    private void need(boolean condition) {
        if (!condition) {
            throw new RefusedException("not JSON, at character " + at);
        }
    }

    /** One line of ASCII, of what {@link #read} reads. */
    static String write(Object value) {
        StringBuilder written = new StringBuilder();
        write(value, written);
        return written.toString();
    }

    private static void write(Object value, StringBuilder out) {
        String separator = "";
        if (value instanceof Map) {
            out.append('{');
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                write(entry.getKey(), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append('}');
        } else if (value instanceof List) {
            out.append('[');
            for (Object item : (List<?>) value) {
                out.append(separator);
                write(item, out);
                separator = ",";
            }
            out.append(']');
        } else if (value instanceof String) {
            out.append('"');
            for (char letter : ((String) value).toCharArray()) {
                if (letter >= ' ' && letter < 127 && letter != '"' && letter != '\\') {
                    out.append(letter);
                } else {
                    out.append("\\u").append(Integer.toHexString(0x10000 + letter), 1, 5);
                }
            }
            out.append('"');
        } else {
            out.append(value);
        }
    }
}
