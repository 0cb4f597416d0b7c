package snapshot

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/visibility"
)

// TestRedact shows a snapshot to ada: of eve there is what she holds, and no
// name.
func TestRedact(t *testing.T) {
	key := func(namespace, name string) scheduling.Key { return scheduling.Key{Namespace: namespace, Name: name} }
	full := scheduling.Snapshot{
		Nodes: []scheduling.Node{{Name: "one", Devices: []scheduling.Device{
			{UUID: "GPU-0"}, {UUID: "GPU-1", Foreign: []scheduling.Process{{PID: 7, User: "eve", Command: "eve's notebook"}}},
		}}},
		Users: queue.Users{Usage: []queue.UserUsage{{Queue: "vision", User: "ada@box"}, {Queue: "vision", User: "eve@box"}}},
		Requests: []scheduling.Request{
			{Key: key("ada", "mnist"), UID: "1", Queue: "vision", User: "ada@box"},
			{Key: key("eve", "covert"), UID: "2", Queue: "vision", User: "eve@box", Missing: "claim covert is missing", Refused: "covert", Unsupported: "covert", LastEnd: "covert"},
			{Key: key("eve", "mnist"), UID: "3", Queue: "vision", User: "eve@box"},
		},
		Placements: []scheduling.Placement{{Gang: key("eve", "covert"), UID: "2"}},
		Pods: []scheduling.Pod{
			{Key: key("eve", "covert-worker-0"), Gang: "2", Node: "one", GPUs: []string{"GPU-0"}},
			{Key: key("ada", "notebook"), Node: "one"},
		},
		Quotas: []scheduling.Quota{{Key: key("eve", "eve-quota")}, {Key: key("ada", "small")}},
	}
	before, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	seen, mask := Redact(full, visibility.Rule{Own: "ada"}, nil)
	text, err := json.Marshal(seen)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"eve", "covert", "notebook\""} {
		if strings.Contains(strings.ReplaceAll(string(text), `"Name":"notebook"`, ""), secret) {
			t.Errorf("it tells of %s: %s", secret, text)
		}
	}
	if after, err := json.Marshal(full); err != nil || string(after) != string(before) {
		t.Errorf("what it was made from is changed: %s", after)
	}
	if mask.Key != nil {
		t.Error("a mask for somebody who sees no users")
	}
	r := seen.Requests
	switch {
	case r[0].Key != full.Requests[0].Key || r[0].User != "ada@box" || seen.Users.Usage[0].User != "ada@box":
		t.Errorf("one's own is changed: %+v", r[0])
	case r[1].Key == r[2].Key || r[1].Namespace != r[2].Namespace || r[1].User != r[2].User || seen.Users.Usage[1].User != r[1].User:
		t.Errorf("others are not the same ones throughout: %+v %+v", r[1], r[2])
	case seen.Placements[0].Gang != r[1].Key || seen.Pods[0].Gang != "2" || seen.Pods[0].Namespace != r[1].Namespace:
		t.Errorf("what belongs together does not: %+v %+v", seen.Placements[0], seen.Pods[0])
	case seen.Pods[1].Key != full.Pods[1].Key || seen.Quotas[1].Key != full.Quotas[1].Key:
		t.Error("one's own pod or quota is changed")
	case len(seen.Nodes[0].Devices[1].Foreign) != 1:
		t.Error("a process that holds a GPU is not there")
	}
}

// TestRedactOnAMachine shows ada, on a machine of several users, that eve holds a GPU, and of a
// process on another who its user is.
func TestRedactOnAMachine(t *testing.T) {
	logins := func(uid uint32) string { return map[uint32]string{1001: "ada", 1002: "eve"}[uid] }
	full := scheduling.Snapshot{
		Nodes: []scheduling.Node{{Name: "one", Devices: []scheduling.Device{{UUID: "GPU-0", Foreign: []scheduling.Process{
			{PID: 7, User: "eve", Command: "covert.py"}, {PID: 8, User: "ada", Command: "mine.py"},
		}}}}},
		Requests: []scheduling.Request{{Key: scheduling.Key{Namespace: "u-1002", Name: "covert"}}, {Key: scheduling.Key{Namespace: "other-1", Name: "hers"}}},
	}
	seen, mask := Redact(full, visibility.Rule{Own: "other-1", Login: "ada", ShowUsers: true}, logins)
	if got := seen.Nodes[0].Devices[0].Foreign; got[0] != (scheduling.Process{PID: 7, User: "eve"}) || got[1].Command != "mine.py" {
		t.Errorf("processes: %+v", got)
	}
	// A namespace of the caller that is called as a made-up one stays apart from those of others.
	if of, own := seen.Requests[0].Key, seen.Requests[1].Key; of.Namespace == own.Namespace || mask.Key(of) != (scheduling.Key{Namespace: "eve"}) || mask.Key(own) != full.Requests[1].Key {
		t.Errorf("%v is shown as %v, and %v as %v", of, mask.Key(of), own, mask.Key(own))
	}
	all, mask := Redact(full, visibility.Everything(), logins)
	if all.Requests[0].Key != full.Requests[0].Key || mask.Key != nil {
		t.Error("names are hidden from an administrator")
	}
	real := MaskOf(visibility.Rule{Own: "u-1001", Login: "ada", ShowUsers: true}, logins)
	if got := real.Key(full.Requests[0].Key); got.String() != "eve" {
		t.Errorf("a job of eve is shown as %s", got)
	}
	if got := real.Process(full.Nodes[0].Devices[0].Foreign[0]); got.Command != "" || got.User != "eve" {
		t.Errorf("a process of eve is shown as %+v", got)
	}
}
