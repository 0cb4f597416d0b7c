package kubelet

import (
	"net/url"
	"testing"
	"time"
)

// FuzzParse: options of a request for logs that are taken are within their limits, and no log is
// asked for from the future on.
func FuzzParse(f *testing.F) {
	for _, query := range []string{"tailLines=5&follow=true", "limitBytes=0", "sinceSeconds=9223372036854775807", "sinceSeconds=9223372037", "sinceTime=2026-01-02T15:04:05Z&sinceSeconds=1", "tailLines=-1&follow=x", "previous=1;a=b"} {
		f.Add(query)
	}
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, _, err := parse(values, now)
		if err != nil {
			return
		}
		if q.Tail < -1 || q.LimitBytes < 0 || values.Get("sinceTime") == "" && q.Since.After(now) {
			t.Fatalf("%q is %+v", query, q)
		}
	})
}
