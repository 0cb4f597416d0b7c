package progress

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	at := time.Unix(1767366000, 0)
	tests := []struct {
		name, text string
		want       Report
	}{
		{"fraction", "0.42", Report{Said: true, Done: 0.42}},
		{"newline", "0.42\n", Report{Said: true, Done: 0.42}},
		{"none", "0", Report{Said: true}},
		{"all", "1", Report{Said: true, Done: 1}},
		{"percent", "42%", Report{Said: true, Done: 0.42}},
		{"steps", "1200/50000", Report{Said: true, Done: 0.024}},
		{"appended", "0.1\n0.2\n0.3\n", Report{Said: true, Done: 0.3}},
		{"windows", "0.1\r\n0.2\r\n", Report{Said: true, Done: 0.2}},
		{"words", "done=0.42 saved=true", Report{Said: true, Done: 0.42, Saved: true}},
		{"words with commas", "step=1200, total=50000", Report{Said: true, Done: 0.024}},
		{"a mark", "0.42 saved", Report{Said: true, Done: 0.42, Saved: true}},
		{"a mark alone", "saved", Report{Saved: true}},
		{"not saved", "0.42 saved=false", Report{Said: true, Done: 0.42}},
		{"saved then", "saved=1767366000", Report{Saved: true, At: at}},
		{"JSON", `{"done": 0.42}`, Report{Said: true, Done: 0.42}},
		{"JSON steps", `{"step": 1200, "total": 50000, "saved": true}`, Report{Said: true, Done: 0.024, Saved: true}},
		{"JSON as words", `{"done": "42%", "saved": "2026-01-02T15:00:00Z"}`, Report{Said: true, Done: 0.42, Saved: true, At: at}},
		{"JSON with more", `{"done": 0.42, "metrics": {"loss": 1.5}}`, Report{Said: true, Done: 0.42}},
		{"JSON over lines", "{\n \"done\": 0.42,\n \"metrics\": {\"loss\": 1}\n}\n", Report{Said: true, Done: 0.42}},
		{"JSON lines", "{\"done\": 0.1}\n{\"done\": 0.2}\n", Report{Said: true, Done: 0.2}},
		{"empty", "", Report{}},
		{"blank", " \n\n", Report{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.text))
			if err != nil || got.Said != tt.want.Said || math.Abs(got.Done-tt.want.Done) > 1e-12 || got.Saved != tt.want.Saved || !got.At.Equal(tt.want.At) {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"not a number", "NaN", "no number"},
		{"infinite", "Inf", "no number"},
		{"too much", "7", "not from 0 to 1"},
		{"negative", "-0.1", "not from 0 to 1"},
		{"over 100 %", "142%", "not from 0 to 1"},
		{"beyond the total", "3/2", "a step is from 0 to the total"},
		{"of nothing", "0/0", "a step is from 0 to the total"},
		{"negative total", "-1/-2", "a step is from 0 to the total"},
		{"words", "epoch three", "neither key=value"},
		{"one word", "nearly", "no number"},
		{"half JSON", `{"done": 0.4`, "not whole JSON"},
		{"JSON of nothing", `{"loss": 1}`, "neither what is done"},
		{"JSON nonsense", `{"done": "NaN"}`, "no number"},
		{"JSON null", `{"done": null}`, "neither what is done"},
		{"step alone", "step=3", "belong together"},
		{"saved nonsense", "0.3 saved=soon", "give true, seconds"},
		{"binary", "\x00\x01\xff\xfe", "no text"},
		{"control", "0.4\x1b[2J", "no text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.text))
			if err == nil || !got.Empty() {
				t.Fatalf("got %+v, %v", got, err)
			}
			for _, want := range []string{tt.want, "0.42"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if len(err.Error()) > 400 {
				t.Errorf("%d bytes of words", len(err.Error()))
			}
		})
	}
}

// Whatever is read, it is a part from 0 to 1 or an error, of modest length.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0.42", "1/2", `{"done":0.4}`, "done=1 saved", "\xff", "{{{{", "1e400", "-0", "0x1p-2", strings.Repeat("9", 400)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			if !r.Empty() || len(err.Error()) > 1000 {
				t.Errorf("%+v with %d bytes of error", r, len(err.Error()))
			}
			return
		}
		if !(r.Done >= 0 && r.Done <= 1) {
			t.Errorf("%q is %v", text, r.Done)
		}
		if !r.Said && r.Done != 0 {
			t.Errorf("%q says %v without saying it", text, r.Done)
		}
		if again, err := Parse(bytes.Clone(text)); err != nil || again != r {
			t.Errorf("the same text, %+v and %+v", r, again)
		}
	})
}
