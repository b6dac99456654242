package hushgram.client;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** What was sent becomes what may be used, or is refused. */
final class Checks {
    /** The largest whole number of JSON that is exact in every language. */
    static final long EXACT = (1L << 53) - 1;

    private static final Pattern NATURAL = Pattern.compile("[1-9][0-9]{0,18}");
    private static final Pattern DECIMAL = Pattern.compile("-?[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?");

    private Checks() {}

    static void need(boolean condition, String why) {
        if (!condition) {
            throw new RefusedException(why);
        }
    }

    static Map<?, ?> object(Object value, String what) {
        need(value instanceof Map, what + ": expected an object");
        return (Map<?, ?>) value;
    }

    static List<?> list(Object value, String what) {
        need(value instanceof List, what + ": expected a list");
        return (List<?>) value;
    }

    static List<?> list(Object value, String what, int least, int most) {
        List<?> list = list(value, what);
        need(least <= list.size() && list.size() <= most, what + ": expected " + least + " to " + most);
        return list;
    }

    static boolean truth(Object value, String what) {
        need(value instanceof Boolean, what + ": expected true or false");
        return (Boolean) value;
    }

    static String string(Object value, String what) {
        need(value instanceof String, what + ": expected text");
        return (String) value;
    }

    /** An entry that may be null, but not missing. */
    static Object entry(Map<?, ?> object, String name) {
        need(object.containsKey(name), name + ": missing");
        return object.get(name);
    }

    static void only(Map<?, ?> object, String names) {
        need(object.keySet().equals(new HashSet<>(Arrays.asList(names.split(" ")))), "expected exactly " + names);
    }

    /** A JSON number that is a whole one; 1.0 is 1. What is beyond all longs becomes the last of them, which is too large. */
    static long count(Map<?, ?> object, String name, long least, long most) {
        Object value = entry(object, name);
        need(value instanceof Number, name + ": expected a whole number");
        long number = ((Number) value).longValue();
        need(number == ((Number) value).doubleValue(), name + ": expected a whole number");
        need(least <= number && number <= most, name + ": " + number + " is not from " + least + " to " + most);
        return number;
    }

    static long count(Map<?, ?> object, String name, long least) {
        return count(object, name, least, EXACT);
    }

    /** A whole number from 1 on as decimal text, of at most 63 bits. */
    static long natural(Object value, String name) {
        need(value instanceof String && NATURAL.matcher((String) value).matches(), name + ": expected digits");
        try {
            return Long.parseLong((String) value);
        } catch (NumberFormatException error) {
            throw new RefusedException(name + ": more than 63 bits");
        }
    }

    /** A finite double as decimal text. Java's own reader also takes hexadecimal digits, suffixes and spaces. */
    static double real(Object value, String name) {
        need(value instanceof String && ((String) value).length() <= 32, name + ": expected a number as text");
        need(DECIMAL.matcher((String) value).matches(), name + ": expected a decimal number");
        double number = Double.parseDouble((String) value);
        need(Math.abs(number) <= Double.MAX_VALUE, name + ": expected a finite number");
        return number;
    }

    static String label(Object value, String name) {
        String label = string(value, name);
        int characters = label.codePointCount(0, label.length());
        need(characters >= 1 && characters <= 128, name + ": expected 1 to 128 characters");
        need(label.indexOf('\ufffd') < 0, name + ": U+FFFD stands for what was not UTF-8");
        utf8(label);
        return label;
    }

    /** Half of a surrogate pair is no text. */
    static byte[] utf8(String text) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[encoded.remaining()];
            encoded.get(bytes);
            return bytes;
        } catch (CharacterCodingException error) {
            throw new RefusedException("text that UTF-8 cannot encode");
        }
    }

    /** Lower-case digits only, as `hushgram manifest` writes them. */
    static byte[] bytes(Object hexadecimal, int length, String name) {
        String digits = string(hexadecimal, name);
        need(digits.matches("[0-9a-f]*") && digits.length() == 2 * length, name + ": " + 2 * length + " digits of 0-9a-f");
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    static String hexadecimal(byte[] bytes) {
        StringBuilder digits = new StringBuilder();
        for (byte one : bytes) {
            digits.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        return digits.toString();
    }
}
