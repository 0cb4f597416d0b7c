package queue

import (
	"math"
	"testing"
)

func TestRecall(t *testing.T) {
	day := grow(t).halfLife
	specs := []Spec{{Name: "team"}, {Name: "a", Parent: "team"}, {Name: "b", Parent: "team"}}
	near := func(t *testing.T, what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1 {
			t.Errorf("%s: %.0f, want %.0f", what, got, want)
		}
	}
	tests := []struct {
		name string
		// held is what a holds when Muster is back.
		held int64
		away int64
		// a, b and team are the decayed usage when it is back.
		a, b, team float64
	}{
		{"back at once", 0, 0, 8000, 4000, 14_000},
		{"away for a half-life, all has ended", 0, day, 4000, 2000, 7000},
		{"away for a half-life, and what ran then runs", 4000, day, 6000, 2000, 9000},
		{"away for ever", 4000, 100 * day, 4000, 0, 4000},
		{"something else runs beside it", 16_000, day, 6000, 2000, 9000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := grow(t, specs...)
			a, b, team := tree.must("a"), tree.must("b"), tree.must("team")
			ask := tree.Classes().Zero()
			ask[GPU] = tt.held
			if !tree.Charge(a, tree.User("ann"), ask) {
				t.Fatal("not charged")
			}
			tree.Advance(200*day + tt.away)
			memory := func(name string, used, decayed int64) Recollection {
				return Recollection{Queue: name, At: 200 * day, Used: Amounts{"gpu": used}, Decayed: Amounts{"gpu": decayed}}
			}
			// The team itself had 2,000 beside its queues.
			tree.Recall([]Recollection{memory("a", 4000, 8000), memory("b", 0, 4000), memory("team", 4000, 14_000), memory("gone", 1, 1)})
			near(t, "a", tree.Decayed(a, GPU), tt.a)
			near(t, "b", tree.Decayed(b, GPU), tt.b)
			near(t, "team", tree.Decayed(team, GPU), tt.team)
			near(t, "all", tree.Decayed(Root, GPU), tt.team)
			sum := 0.0
			for key, record := range tree.records {
				if key.leaf == int32(tree.leaf(a)) {
					tree.settleRecord(int(record))
					sum += tree.lately[int(record)*tree.classes.Len()+int(GPU)]
				}
			}
			near(t, "the users of a", sum, tt.a)
			// It goes on to decay from there.
			tree.Advance(tree.Now() + day)
			near(t, "a, later", tree.Decayed(a, GPU), float64(tt.held)+(tt.a-float64(tt.held))/2)
		})
	}
}

// What users used is remembered user by user, and a queue's own record has the
// last word on what they had together.
func TestRecallUsers(t *testing.T) {
	day := grow(t).halfLife
	specs := []Spec{{Name: "team"}, {Name: "a", Parent: "team"}}
	before := grow(t, specs...)
	a := before.must("a")
	for i, name := range []string{"ann", "bob", "cem"} {
		ask := before.Classes().Zero()
		ask[GPU] = int64(1000 * (i + 1))
		before.Charge(a, before.User(name), ask)
	}
	before.Advance(10 * day)
	ask := before.Classes().Zero()
	ask[GPU] = 2000
	before.Refund(a, before.User("bob"), ask)
	kept := before.Users(2)
	if len(kept.Usage) != 2 || kept.Usage[0].User != "cem" || kept.Usage[1].User != "bob" || kept.Usage[1].Held["gpu"] != 0 {
		t.Fatalf("kept %+v, want cem and bob, who no longer holds anything", kept)
	}
	tests := []struct {
		name     string
		queues   []Recollection
		bob, all float64
	}{
		// After a half-life cem has 3,000 still, for it is held, and bob half.
		{"users alone", nil, 999, 3998},
		{"the queue had more, which is nobody's", []Recollection{{Queue: "a", At: 10 * day, Used: Amounts{"gpu": 3000}, Decayed: Amounts{"gpu": 7000}}}, 999, 5000},
		{"the queue had less", []Recollection{{Queue: "a", At: 10 * day, Used: Amounts{"gpu": 0}, Decayed: Amounts{"gpu": 4000}}}, 999 * 2000. / 3998, 2000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := grow(t, specs...)
			q := tree.must("a")
			ask := tree.Classes().Zero()
			ask[GPU] = 3000
			tree.Charge(q, tree.User("cem"), ask)
			tree.Advance(11 * day)
			tree.RecallUsers(kept)
			tree.Recall(tt.queues)
			r := tree.records[recordKey{int32(tree.leaf(q)), tree.User("bob")}]
			if got := tree.lately[int(r)*tree.classes.Len()+int(GPU)]; math.Abs(got-tt.bob) > 2 {
				t.Errorf("bob: %.0f, want %.0f", got, tt.bob)
			}
			if got := tree.Decayed(Root, GPU); math.Abs(got-tt.all) > 2 {
				t.Errorf("all: %.0f, want %.0f", got, tt.all)
			}
		})
	}
}
