package node

import "testing"

func TestClassify(t *testing.T) {
	own := &record{Cluster: "c", ResourceVersion: "100"}
	cases := []struct {
		name     string
		record   *record
		cluster  string
		revision string
		listed   bool
		want     fate
	}{
		{"in the API", own, "c", "200", true, fateAdopt},
		{"in the API, without a record", nil, "c", "200", true, fateAdopt},
		{"deleted", own, "c", "200", false, fateRemove},
		{"deleted at the same revision", own, "c", "100", false, fateRemove},
		{"longer revision", own, "c", "1000", false, fateRemove},
		{"an older list", own, "c", "99", false, fateQuarantine},
		{"another cluster", own, "d", "200", false, fateQuarantine},
		{"no record", nil, "c", "200", false, fateQuarantine},
		{"no revision", own, "c", "", false, fateQuarantine},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := classify(c.record, "c", c.revision, c.listed); c.cluster == "c" && got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if got := classify(c.record, "d", c.revision, c.listed); c.cluster == "d" && got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
