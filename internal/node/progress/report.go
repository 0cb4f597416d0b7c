package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is what a program says of itself. What it does not say is not
// changed by it.
type Report struct {
	// Said is true where it says how much is done: Done, from 0 to 1.
	Said bool
	Done float64
	// Saved is true where it says that it saved; At is when, zero: when it
	// reported.
	Saved bool
	At    time.Time
}

// Empty is true for a report that says nothing.
func (r Report) Empty() bool { return !r.Said && !r.Saved }

// howTo ends every message about a report that cannot be read.
const howTo = `write one line such as 0.42, 42%, 1200/50000, done=0.42 saved=true or {"step": 1200, "total": 50000, "saved": true}`

// Parse reads a report: the last line of the text that is not empty. A text
// without any says nothing.
func Parse(text []byte) (Report, error) {
	line := lastLine(text)
	if len(line) == 0 {
		return Report{}, nil
	}
	if !utf8.Valid(line) || bytes.ContainsFunc(line, func(c rune) bool { return c < ' ' && c != '\t' }) {
		return Report{}, errors.New("it is no text: " + howTo)
	}
	pairs, err := pairsOf(string(line))
	if err == nil {
		var r Report
		if r, err = read(pairs); err == nil {
			return r, nil
		}
	}
	return Report{}, fmt.Errorf("%q: %w; %s", shorten(string(line)), err, howTo)
}

// lastLine is the last line; or all of a JSON object over several lines.
func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	line := text
	if i := bytes.LastIndexAny(text, "\r\n"); i >= 0 {
		line = bytes.TrimSpace(text[i+1:])
	}
	if len(line) > 0 && line[0] != '{' && line[len(line)-1] == '}' && text[0] == '{' {
		return bytes.Join(bytes.Fields(text), []byte(" "))
	}
	return line
}

func shorten(line string) string {
	const most = 60
	if len(line) <= most {
		return line
	}
	return strings.ToValidUTF8(line[:most], "") + "..."
}

// pairsOf takes a line apart into keys and values: a JSON object, words of the
// form key=value, or a bare value, which says what is done.
func pairsOf(line string) (map[string]string, error) {
	if strings.HasPrefix(line, "{") {
		return object(line)
	}
	out := map[string]string{}
	words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' || c == ';' })
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		switch {
		case found:
			out[strings.ToLower(key)] = value
		case word == "saved":
			out["saved"] = "true"
		case len(words) == 1 || out["done"] == "":
			out["done"] = word
		default:
			return nil, fmt.Errorf("%q is neither key=value nor a number", word)
		}
	}
	return out, nil
}

// object reads a JSON object; values that are neither numbers, words nor truths
// are left out.
func object(line string) (map[string]string, error) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, errors.New("it is not whole JSON")
	}
	out := map[string]string{}
	for key, value := range fields {
		switch v := value.(type) {
		case json.Number:
			out[strings.ToLower(key)] = v.String()
		case string:
			out[strings.ToLower(key)] = v
		case bool:
			out[strings.ToLower(key)] = strconv.FormatBool(v)
		}
	}
	return out, nil
}

// read makes a report of keys and values; others than those that it knows are
// somebody else's.
func read(pairs map[string]string) (Report, error) {
	var r Report
	var err error
	step, hasStep := pairs["step"]
	total, hasTotal := pairs["total"]
	done, hasDone := pairs["done"]
	switch {
	case hasDone:
		r.Done, err = fraction(done)
		r.Said = true
	case hasStep && hasTotal:
		r.Done, err = fraction(step + "/" + total)
		r.Said = true
	case hasStep != hasTotal:
		err = errors.New("step and total belong together")
	}
	if err != nil {
		return Report{}, err
	}
	if saved, some := pairs["saved"]; some {
		if r.Saved, r.At, err = moment(saved); err != nil {
			return Report{}, err
		}
	}
	if r.Empty() && pairs["saved"] == "" {
		return Report{}, errors.New("it says neither what is done nor what was saved")
	}
	return r, nil
}

// fraction reads 0.42, 42% or 1200/50000.
func fraction(text string) (float64, error) {
	if step, total, found := strings.Cut(text, "/"); found {
		a, err := number(step)
		if err != nil {
			return 0, err
		}
		b, err := number(total)
		if err != nil {
			return 0, err
		}
		if b <= 0 || a < 0 || a > b {
			return 0, fmt.Errorf("step %s of %s: a step is from 0 to the total, which is above 0", step, total)
		}
		return a / b, nil
	}
	scale := 1.0
	if short, found := strings.CutSuffix(text, "%"); found {
		text, scale = short, 100
	}
	done, err := number(text)
	if err != nil {
		return 0, err
	}
	if done /= scale; done < 0 || done > 1 {
		return 0, fmt.Errorf("%s is not from 0 to 1", text)
	}
	return done, nil
}

func number(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is no number", shorten(text))
	}
	return n, nil
}

// moment reads when something was saved: true, false, seconds since 1970, or a
// time as in RFC 3339.
func moment(text string) (saved bool, at time.Time, err error) {
	switch strings.ToLower(text) {
	case "true", "yes", "1":
		return true, time.Time{}, nil
	case "false", "no", "0", "":
		return false, time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return true, at, nil
	}
	seconds, err := number(text)
	if err != nil || seconds < 0 || seconds > 1e11 {
		return false, time.Time{}, fmt.Errorf("saved is %q: give true, seconds since 1970 or a time such as 2026-01-02T15:04:05Z", shorten(text))
	}
	return true, time.UnixMicro(int64(seconds * 1e6)), nil
}
