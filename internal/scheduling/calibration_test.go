package scheduling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// What was learned survives being written down and read again, and says the
// same of what waits; something else is said without it.
func TestCalibration(t *testing.T) {
	c, now := crowd(t, 20, 200)
	f := &Foresight{}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 150 {
		uid := c.waiting[i].req.UID
		if x, ok := f.Forecast(c, uid, now); ok && i%3 > 0 {
			f.Started(uid, now+3*(x.To-now)+Instant(random.Int64N(int64(estimate.Hour))))
		}
	}
	text, err := json.Marshal(f.Learned())
	if err != nil {
		t.Fatal(err)
	}
	var read Calibration
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	again := NewForesight(read)
	if other, _ := json.Marshal(again.Learned()); string(other) != string(text) {
		t.Errorf("written %s\nread    %s", text, other)
	}
	uid := c.waiting[160].req.UID
	a, _ := f.Forecast(c, uid, now)
	b, _ := again.Forecast(c, uid, now)
	without, _ := (&Foresight{}).Forecast(c, uid, now)
	if a != b {
		t.Errorf("before %+v, after %+v", a, b)
	}
	if a == without {
		t.Errorf("nothing was learned: %+v", a)
	}
	if len(text) > 64<<10 {
		t.Errorf("it takes %d bytes", len(text))
	}
}

// Nonsense that somebody wrote there does no harm.
func TestCalibrationOfNonsense(t *testing.T) {
	c, now := crowd(t, 20, 200)
	uid := c.waiting[160].req.UID
	for i, text := range []string{
		`{"drift": 1e300}`, `{"ratios":[{"size":7,"length":-3,"counts":{"5":1}}]}`, `{"ratios":[{"size":-1,"length":-1,"ahead":-1,"counts":{"-4":1,"900":2,"3":-5,"4":1e300}}]}`,
		`{"open":[{"uid":"x","size":99,"at":-1,"wait":-5}]}`,
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var read Calibration
			if err := json.Unmarshal([]byte(text), &read); err != nil {
				t.Fatal(err)
			}
			x, ok := NewForesight(read).Forecast(c, uid, now)
			if !ok || x.From > x.To || x.From < now {
				t.Errorf("%+v, %v", x, ok)
			}
		})
	}
}
