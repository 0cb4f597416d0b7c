package podrecord

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestClassify(t *testing.T) {
	own := &Record{Cluster: "c", ResourceVersion: "100"}
	cases := []struct {
		name     string
		record   *Record
		cluster  types.UID
		revision string
		listed   bool
		want     Fate
	}{
		{"in the API", own, "c", "200", true, Adopt},
		{"in the API, without a record", nil, "c", "200", true, Adopt},
		{"deleted", own, "c", "200", false, Remove},
		{"deleted at the same revision", own, "c", "100", false, Remove},
		{"longer revision", own, "c", "1000", false, Remove},
		{"an older list", own, "c", "99", false, Quarantine},
		{"another cluster", own, "d", "200", false, Quarantine},
		{"an unknown cluster", own, "", "200", false, Quarantine},
		{"no record", nil, "c", "200", false, Quarantine},
		{"no revision", own, "c", "", false, Quarantine},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Classify(c.record, c.cluster, c.revision, c.listed); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
