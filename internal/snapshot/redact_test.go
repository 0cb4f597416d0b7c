package snapshot

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue"
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
			{Key: key("eve", "covert"), UID: "2", Queue: "vision", User: "eve@box"},
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
	seen := Redact(full, "ada")
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
