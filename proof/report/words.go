package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// short writes a duration as people read it: 1.2 s, 35 ms. One below zero stands
// for "there was none".
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", max(1, d.Round(time.Microsecond).Microseconds()))
	case d < 10*time.Millisecond:
		return digits(float64(d)/float64(time.Millisecond), 1) + " ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		return digits(d.Seconds(), 1) + " s"
	case d < time.Hour:
		d = d.Round(time.Second)
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second), " 0 s")
	default:
		d = d.Round(time.Minute)
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute), " 0 min")
	}
}

// digits writes a number with so many digits behind the point, without zeros at
// the end.
func digits(x float64, behind int) string {
	text := strconv.FormatFloat(x, 'f', behind, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

var inCell = strings.NewReplacer("|", `\|`, "\r", "", "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "'")

// cell makes text fit for a table: what others wrote is shown as it is.
func cell(text string) string { return inCell.Replace(strings.TrimSpace(text)) }

// numbers writes numbers that ascend: 3, 5–8, 24.
func numbers(list []int) string {
	var all []string
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		text := strconv.Itoa(list[i])
		if last > i {
			text += "–" + strconv.Itoa(list[last])
		}
		all = append(all, text)
		i = last + 1
	}
	return strings.Join(all, ", ")
}
