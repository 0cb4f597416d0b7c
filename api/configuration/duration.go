package configuration

import (
	"encoding/json"
	"fmt"
	"time"
)

// defaultRetention is two weeks.
const defaultRetention = Duration(14 * 24 * time.Hour)

// defaultResults is a month.
const defaultResults = Duration(30 * 24 * time.Hour)

// Duration is a span of time, written as in Go: "336h", "90m". A bare 0 is
// none at all.
type Duration time.Duration

// UnmarshalJSON reads a text such as "336h", or 0.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if string(data) == "0" {
		*d = 0
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is not a time: give hours, minutes or seconds, such as 336h", data)
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a time: give hours, minutes or seconds, such as 336h", text)
	}
	*d = Duration(span)
	return nil
}

// MarshalJSON writes the text that UnmarshalJSON reads.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// String returns the span as Go writes it.
func (d Duration) String() string { return time.Duration(d).String() }
