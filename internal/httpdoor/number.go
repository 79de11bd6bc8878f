package httpdoor

import (
	"math"
	"strconv"
	"strings"

	"github.com/lockmw/kit/internal/door"
)

var errNumber = door.NewFault("is a number with too many digits", ": it is no integer of 64 bits, and has more than a float64 can tell apart")

// number returns one text for all spellings of a JSON number: 100, 100.0 and
// 1e2 are the same to a handler that reads a float64 (or any).
//
// An integer that fits in int64 or uint64 is itself, digit by digit, because
// that is how handlers with such fields see it. Any other number must be what
// the nearest float64 prints, or it is an error: a handler that reads a float
// sees 0.1 and 0.10000000000000000001 as equal, and one with a decimal type
// sees them as different.
//
// What is left: a handler that decodes integers beyond 2^53 into a float64, or
// into any, takes neighbours for equal that are different here: 9007199254740993
// and 9007199254740992. It has lost their digits; it must read an int64 or a
// json.Number.
func number(literal string) (string, error) {
	if !strings.ContainsAny(literal, ".eE") {
		if literal == "-0" {
			return "0", nil
		}
		if _, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return literal, nil
		}
		if _, err := strconv.ParseUint(literal, 10, 64); err == nil {
			return literal, nil
		}
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || decimalOf(literal) != decimalOf(strconv.FormatFloat(f, 'e', -1, 64)) {
		return "", errNumber
	}
	if f == math.Trunc(f) && math.Abs(f) < 1e21 {
		if f == 0 {
			f = 0 // not -0
		}
		return strconv.FormatFloat(f, 'f', -1, 64), nil
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}

// A decimal is a number without the freedom of its spelling: 0.digits times
// ten to the power of exponent.
type decimal struct {
	negative bool
	digits   string // neither begins nor ends with 0; empty for zero
	exponent int
}

// decimalOf reads a JSON number. An exponent that no float64 has makes it
// different from all that have one.
func decimalOf(literal string) decimal {
	var d decimal
	literal, d.negative = strings.CutPrefix(literal, "-")
	mantissa, power := literal, ""
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa, power = literal[:i], literal[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return decimal{} // 0, whatever its sign and exponent
	}
	leading := len(whole) + len(fraction) - len(digits)
	d.digits = strings.TrimRight(digits, "0")
	d.exponent = len(whole) - leading
	if power != "" {
		n, err := strconv.Atoi(power)
		if err != nil {
			n = math.MaxInt / 2
		}
		d.exponent += n
	}
	return d
}
