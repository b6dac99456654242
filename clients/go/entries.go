package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	most53    = 1 << 53
	mostWhole = most53 - 1 // every double up to it that is whole was written as such
)

// entries reads values of JSON that must have their type, and remembers the first that has not. It reads maps, because
// the decoder into structs takes "p" for "P".
type entries struct{ err error }

func (e *entries) fail(what, must string) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %s must be %s", ErrManifest, what, must)
	}
}

func parseObject(data []byte) (map[string]any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	if object == nil {
		return nil, errors.New("it is no object")
	}
	return object, nil
}

// object has exactly these entries.
func (e *entries) object(value any, what string, names ...string) map[string]any {
	object, ok := value.(map[string]any)
	for _, name := range names {
		if _, there := object[name]; !there {
			ok = false
		}
	}
	if !ok || len(object) != len(names) {
		e.fail(what, fmt.Sprintf("an object of %q", names))
	}
	return object
}

func (e *entries) list(value any, what string, least, most int) []any {
	list, ok := value.([]any)
	if !ok || len(list) < least || len(list) > most {
		e.fail(what, fmt.Sprintf("a list of %d to %d", least, most))
		return nil
	}
	return list
}

// integer is decimal text, from least to 2^63 - 1.
func (e *entries) integer(value any, what string, least int64) int64 {
	text, _ := value.(string)
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < least || strconv.FormatInt(number, 10) != text {
		e.fail(what, fmt.Sprintf("the text of an integer from %d to 2^63 - 1", least))
	}
	return number
}

// whole is a number of JSON that is a whole one; 1.0 is 1.
func (e *entries) whole(value any, what string, least, most int64) int64 {
	text, _ := value.(json.Number)
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil || number != math.Trunc(number) || number < float64(least) || number > float64(most) {
		e.fail(what, fmt.Sprintf("a whole number from %d to %d", least, most))
		return least
	}
	return int64(number)
}

var realPattern = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$`)

// parseReal reads a finite double. The pattern keeps out what ParseFloat reads beyond that: hexadecimal digits, NaN, infinities.
func parseReal(text string) (float64, bool) {
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil && len(text) <= 32 && realPattern.MatchString(text)
}

func (e *entries) real(value any, what string) float64 {
	text, _ := value.(string)
	number, ok := parseReal(text)
	if !ok {
		e.fail(what, "the text of a finite number")
		return math.NaN()
	}
	return number
}

// rising reads finite numbers of which each is larger than the one before, and the last less the first is finite.
func (e *entries) rising(value any, what string, least int) []float64 {
	list := e.list(value, what, least, 65535)
	numbers := make([]float64, len(list))
	for i, item := range list {
		numbers[i] = e.real(item, what)
		if i > 0 && !(numbers[i-1] < numbers[i]) {
			e.fail(what, "strictly rising")
		}
	}
	if n := len(numbers); n > 0 && math.IsInf(numbers[n-1]-numbers[0], 0) {
		e.fail(what, "as close as doubles can tell")
	}
	return numbers
}

func (e *entries) truth(value any, what string) bool {
	truth, ok := value.(bool)
	if !ok {
		e.fail(what, "true or false")
	}
	return truth
}

func (e *entries) oneOf(value any, what string, choices ...string) string {
	text, ok := value.(string)
	if !ok || !slices.Contains(choices, text) {
		e.fail(what, fmt.Sprintf("one of %q", choices))
	}
	return text
}

func (e *entries) label(value any, what string) string {
	text, ok := value.(string)
	if length := utf8.RuneCountInString(text); !ok || length < 1 || length > 128 || strings.ContainsRune(text, utf8.RuneError) {
		e.fail(what, "text of 1 to 128 characters without U+FFFD, which the decoder makes of half a surrogate pair")
	}
	return text
}

var fingerprintPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

func (e *entries) fingerprint(value any, what string) string {
	text, _ := value.(string)
	if !fingerprintPattern.MatchString(text) {
		e.fail(what, "16 hexadecimal digits")
		return "0000000000000000"
	}
	return text
}
