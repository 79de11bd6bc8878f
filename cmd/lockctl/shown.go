package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/settings"
)

// This file describes settings, for people and for programs.

// A shown is a setting as it is listed.
type shown struct {
	Pattern string     `json:"pattern"`
	Change  string     `json:"change,omitzero"`
	Author  string     `json:"author,omitzero"`
	Reason  string     `json:"reason,omitzero"`
	Since   *time.Time `json:"since,omitzero"`
	Until   *time.Time `json:"until,omitzero"`
	Left    string     `json:"left,omitzero"`
	Over    bool       `json:"over,omitzero"`  // its end has come
	Error   string     `json:"error,omitzero"` // why no service reads it
	none    bool       // nothing is set there

	Replaces *shown `json:"replaces,omitzero"` // what was set in its place before, where it is set
}

// words is the setting in a sentence, such as "wait=4s (by ada: INC-1)".
func (s shown) words() string {
	switch {
	case s.none:
		return "not set"
	case s.Error != "":
		return "what could not be read: " + printable(s.Error)
	}
	by := ""
	if s.Author != "" {
		by = "by " + printable(s.Author)
	}
	why := printable(s.Reason)
	if by != "" && why != "" {
		by += ": "
	}
	over := ""
	switch {
	case s.Over:
		over = ", which was over"
	case s.Left != "":
		over = ", with " + s.Left + " left"
	}
	if by += why; by != "" {
		by = " (" + by + ")"
	}
	return s.Change + over + by
}

// shownOf describes what is set under a pattern when Redis's clock showed clock; an empty text is nothing.
func shownOf(pattern, text string, clock int64) shown {
	s := shown{Pattern: pattern, none: text == ""}
	entry, err := settings.Parse(text)
	if err == nil {
		_, err = settings.ParsePattern(pattern)
	}
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Change, s.Author, s.Reason = entry.Change.String(), entry.Author, entry.Reason
	if entry.Set != 0 {
		s.Since = new(time.UnixMicro(entry.Set))
	}
	if left, ends := entry.Left(time.Time{}, clock); ends {
		s.Until, s.Over = new(time.UnixMicro(entry.Over)), left <= 0
		if left > 0 {
			s.Left = short(left)
		}
	}
	return s
}

const settingColumns = "%-24s %-28s %-8s %-20s %-20s %s\n"

// line is a setting as a line of the table.
func (s shown) line() string {
	change, left, since := s.Change, "-", "-"
	switch {
	case s.Error != "":
		change = "cannot be read: " + s.Error
	case s.Over:
		left = "over"
	case s.Left != "":
		left = s.Left
	}
	if s.Since != nil {
		since = s.Since.Local().Format(time.DateTime)
	}
	text := fmt.Sprintf(settingColumns, quoted(s.Pattern), printable(change), left, since, printable(s.Author), printable(s.Reason))
	return strings.TrimRight(text, " \n") + "\n"
}
