package retention

import (
	"strings"
	"testing"
	"time"
)

func hash(digit string) string { return strings.Repeat(digit, hashDigits) }

func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const day, never = 24 * time.Hour, 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		name           string
		live           bool
		reserved, used time.Duration // ago
		retention      time.Duration
		want           Verdict
	}{
		{"referred to, however old", true, never, never, 0, Live},
		{"stored just now", false, 0, never, 14 * day, Retained},
		{"stored just now, nothing is retained", false, 0, never, 0, Recent},
		{"one second within the grace period", false, Grace - time.Second, never, 0, Recent},
		{"at the end of the grace period", false, Grace, Grace, 0, Expired},
		{"used just now does not renew the grace period", false, day, 0, 0, Expired},
		{"stored long ago, used within the retention", false, 30 * day, 14*day - time.Second, 14 * day, Retained},
		{"last used as long ago as the retention", false, 30 * day, 14 * day, 14 * day, Expired},
		{"stored within the retention, never used", false, 13 * day, never, 14 * day, Retained},
		{"a retention that is shorter than the grace period", false, 10 * time.Minute, never, time.Minute, Recent},
		{"from the future", false, -day, never, 0, Recent},
		{"used in the future", false, never, -day, time.Hour, Retained},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := Rule{Now: now, Retention: c.retention}
			if c.live {
				rule.Live.Mention(hash("a"))
			}
			for _, name := range []string{hash("a"), "sha256:" + hash("a")} {
				if got := rule.Judge(name, ago(c.reserved), ago(c.used)); got != c.want {
					t.Errorf("%s: verdict %d, want %d", name, got, c.want)
				}
			}
		})
	}
	rule := Rule{Now: now, Retention: 14 * day}
	if rule.Unfinished(ago(Grace-time.Second)) != Recent || rule.Unfinished(ago(Grace)) != Expired {
		t.Error("what was never finished stays for the grace period and no longer")
	}
}

func TestMention(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a digest":             {`{"snapshot":"sha256:` + hash("a") + `"}`, []string{hash("a")}},
		"a key":                {`{"key":"` + hash("b") + `"}`, []string{hash("b")}},
		"a path":               {"PATH=/h/environments/" + hash("c") + "/venv/bin:/bin", []string{hash("c")}},
		"a checkout":           {"sha256-" + hash("d"), []string{hash("d")}},
		"two, side by side":    {hash("a") + "," + hash("b"), []string{hash("a"), hash("b")}},
		"too short, too long":  {hash("a")[1:] + " " + hash("b") + "0", nil},
		"upper case is no key": {strings.ToUpper(hash("a")), nil},
		"nothing":              {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var r References
			r.Mention(c.text)
			if r.Len() != len(c.want) {
				t.Errorf("%d references, want %v", r.Len(), c.want)
			}
			for _, hash := range c.want {
				if !r.Has(hash) || !r.Has("sha256:"+hash) {
					t.Errorf("%s is not among them", hash)
				}
			}
		})
	}
}
