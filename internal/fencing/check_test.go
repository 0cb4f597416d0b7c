package fencing_test

import (
	"strings"
	"testing"
	"time"
)

// The guards of the protocol.
const (
	lists         guard = "who takes over lists"
	stamps        guard = "who takes over adopts before it plans"
	stampsVersion guard = "a stamp is written on the version that was judged"
	settlesOnce   guard = "settling is by comparison and swap"
	stampsPods    guard = "who takes over stamps the pods that wait"
	bindsVersion  guard = "a binding names the version of the pod"
	bindsChecked  guard = "the fence is read before a pod is bound"
	keepsUnclear  guard = "a plan is not dropped while a write of it may be under way"
	judges        guard = "placements are judged before members are made"
	judgesLive    guard = "what is not valid is read past the cache"
	undoes        guard = "void placements are undone"
	knowsSpent    guard = "placements that came twice hold nothing and are undone"
	burns         guard = "the attempt of a void placement is passed over"
	marksFirst    guard = "placements are marked before pods are looked for"
	nodeLooks     guard = "the node reads the placement of a member"
	wordsAnswered guard = "the word of an orderly hand-over is said only when every placement was answered"
	wordsOfPods   guard = "and every binding"
	wordsLast     guard = "who has said the word writes nothing more"
	wordsByLeader guard = "only who leads says the word"
	wordsSwapped  guard = "the word is said by comparison and swap"
	wordsNamed    guard = "the word is about one epoch, and tells the next one alone that it has nothing to adopt"
	chainsKeep    guard = "who carries a chain on leaves what was settled as it was"
	stampsChains  guard = "who breaks a chain stamps what belongs to it"
)

// The configurations. Each takes two schedulers, which take over from one
// another as often as there are epochs.
var (
	contended   = model{gangs: 2, members: 1, devices: 1, epochs: 2}
	foreigner   = model{gangs: 1, members: 1, devices: 1, epochs: 2, foreign: true}
	takenOver   = model{gangs: 1, members: 1, devices: 1, epochs: 2, fails: 1}
	threeInARow = model{gangs: 1, members: 1, devices: 1, epochs: 3}
	pair        = model{gangs: 1, members: 2, devices: 2, epochs: 2}
	failingPair = model{gangs: 1, members: 2, devices: 2, epochs: 1, fails: 1}
	sentTwice   = model{gangs: 1, members: 1, devices: 1, epochs: 1, fails: 1, again: true}

	// Those in which schedulers may also hand over in order.
	inOrder        = model{gangs: 1, members: 1, devices: 1, epochs: 2, fails: 1, orderly: true}
	inOrderForeign = model{gangs: 1, members: 1, devices: 1, epochs: 2, foreign: true, orderly: true}
	inOrderThrice  = model{gangs: 1, members: 1, devices: 1, epochs: 3, orderly: true}
	inOrderPair    = model{gangs: 1, members: 2, devices: 2, epochs: 2, orderly: true}
	inOrderTwice   = model{gangs: 1, members: 1, devices: 1, epochs: 2, orderly: true, again: true}
	rolledBack     = model{gangs: 1, members: 1, devices: 1, epochs: 3, orderly: true, older: true}
	inOrderThree   = model{gangs: 1, members: 1, devices: 1, epochs: 3, foreign: true, orderly: true}
)

// TestEveryInterleaving explores every order of events. In no state is a device
// used twice, do members of two attempts run, or runs what is void or given
// back; from every state all gangs and pods can get to their ends.
func TestEveryInterleaving(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model model
		large bool
	}{
		{"two gangs want one device", contended, true},
		{"a gang and a foreign pod want one device", foreigner, false},
		{"a takeover, and an attempt that fails", takenOver, false},
		{"three schedulers in a row", threeInARow, true},
		{"a gang of two members", pair, false},
		{"a gang of two members, of which one fails", failingPair, false},
		{"every request may arrive twice", sentTwice, false},
		{"a hand-over, and an attempt that fails", inOrder, false},
		{"a hand-over, a gang and a foreign pod", inOrderForeign, false},
		{"three schedulers in a row, some in order", inOrderThrice, true},
		{"a hand-over, and a gang of two members", inOrderPair, true},
		{"a hand-over to the version before, and back", rolledBack, true},
		{"a hand-over, and requests that arrive twice", inOrderTwice, true},
	} {
		if tt.large && (raced || testing.Short()) {
			continue // minutes under the race detector, for a model of one goroutine
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			r := explore(tt.model)
			if r.broken != "" {
				t.Fatal(r)
			}
			t.Logf("%s, in %s", r, time.Since(begin).Round(time.Millisecond))
		})
	}
}

// TestEveryGuardIsNeeded switches off one guard after the other: each time the
// exploration finds what then goes wrong, and tells the shortest way to it.
func TestEveryGuardIsNeeded(t *testing.T) {
	const (
		twice   = "device 0 is used by"
		void    = "its placement is void"
		given   = "its placement has been given back"
		forever = "ever gets to its end"
	)
	for _, tt := range []struct {
		off   guard
		model model
		want  string
	}{
		{lists, takenOver, void},
		{stamps, takenOver, void},
		{stampsVersion, threeInARow, void},
		{settlesOnce, takenOver, void},
		{stampsPods, foreigner, twice},
		{bindsVersion, foreigner, twice},
		{bindsChecked, foreigner, twice},
		{keepsUnclear, foreigner, twice},
		{judges, takenOver, void},
		{judgesLive, takenOver, given},
		{undoes, pair, forever},
		{knowsSpent, sentTwice, forever},
		{burns, pair, forever},
		{marksFirst, failingPair, given},
		{nodeLooks, failingPair, given},
		{wordsAnswered, inOrderForeign, twice},
		{wordsOfPods, inOrderForeign, twice},
		{wordsLast, inOrderForeign, twice},
		{wordsByLeader, inOrderThree, twice},
		{wordsSwapped, inOrderForeign, twice},
		{wordsNamed, inOrderThrice, forever},
		{chainsKeep, inOrder, void},
		{stampsChains, inOrderThrice, void},
	} {
		t.Run(string(tt.off), func(t *testing.T) {
			m := tt.model
			m.off = tt.off
			r := explore(m)
			t.Logf("without it: %s", r)
			if !strings.Contains(r.broken, tt.want) || len(r.trace) == 0 {
				t.Errorf("found %q; want what contains %q", r.broken, tt.want)
			}
		})
	}
}
