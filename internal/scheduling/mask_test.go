package scheduling

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// byUser shows the names of ada, and of others the user alone.
var byUser = Mask{
	Key: func(k Key) Key {
		if k.Namespace == "ada" {
			return k
		}
		return Key{Namespace: k.Namespace}
	},
	Process: func(p Process) Process { return Process{PID: p.PID, User: p.User} },
}

// TestMaskOfAReason masks who holds GPUs: one user with several jobs is named once, since the
// first of them.
func TestMaskOfAReason(t *testing.T) {
	clock := func(at Instant) string { return map[Instant]string{1: "12:00", 2: "12:30", 3: "13:00"}[at] }
	full := ShortOfGPUs{
		Need: 8, Single: true,
		Holders: []GPUHolder{
			{Key: Key{"eve", "covert"}, Count: 2, Since: 2}, {Key: Key{"ada", "mnist"}, Count: 1, Since: 1},
			{Key: Key{"eve", "secret"}, Pod: true, Count: 2, Since: 3}, {Key: Key{"bob", "hidden"}, Pod: true, Claim: true, Count: 1},
		},
		Foreign: []GPUForeign{{UUID: "GPU-1", Process: Process{PID: 7, User: "eve", Command: "covert.py"}}},
	}
	before, _ := json.Marshal(full)
	const want = "needs 8 GPUs at once; none is free here, 4 are held by eve since 12:30, 1 by ada/mnist since 12:00, 1 by bob, 1 by process 7 of eve, which is not Muster's"
	if got := byUser.Reason(full).Render(clock); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if after, _ := json.Marshal(full); string(after) != string(before) {
		t.Errorf("the reason itself is changed: %s", after)
	}
	if got := (Mask{}).Reason(full); !cmp.Equal(got, Reason(full)) {
		t.Errorf("an empty mask changes a reason: %s", cmp.Diff(Reason(full), got))
	}
	if got := byUser.Reason(nil); got != nil {
		t.Errorf("of no reason: %v", got)
	}
}

// secretive fills every string, key and process that a value can hold with secrets of eve.
func secretive(v reflect.Value, depth int) {
	switch of := v.Addr().Interface().(type) {
	case *Key:
		*of = Key{"eve", "covert"}
		return
	case *Process:
		*of = Process{PID: 7, User: "eve", Command: "covert"}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				panic("a reason has a field that no mask reaches: " + v.Type().String() + "." + v.Type().Field(i).Name)
			}
			secretive(v.Field(i), depth)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		secretive(v.Index(0), depth)
		secretive(v.Index(1), depth)
	case reflect.Interface:
		if depth > 0 {
			inner := reflect.New(reflect.TypeFor[ShortOfGPUs]()).Elem()
			secretive(inner, depth-1)
			v.Set(inner)
		}
	}
}

// TestMaskReachesEveryName has every kind of reason and advice name a job of eve wherever it can.
func TestMaskReachesEveryName(t *testing.T) {
	clock := func(Instant) string { return "12:00" }
	for _, reason := range []Reason{
		ShortOfGPUs{}, ShortOfShare{}, ShortOfResource{}, BlockedByQueue{Rule: RuleLimit}, OverQuota{}, KeptFree{}, MakingRoom{},
		InDomain{}, TooFewDomains{}, NoDomain{}, KeptApart{}, Scattered{}, TooLarge{}, NoSuchModel{}, Placed{}, CoolingOff{},
	} {
		v := reflect.New(reflect.TypeOf(reason)).Elem()
		secretive(v, 1)
		masked := byUser.Reason(v.Interface().(Reason))
		text, err := json.Marshal(masked)
		if err != nil || strings.Contains(string(text)+masked.Render(clock), "covert") {
			t.Errorf("%T tells of covert: %s %s %v", reason, text, masked.Render(clock), err)
		}
	}
	v := reflect.New(reflect.TypeFor[QueueHasRoomLater]()).Elem()
	secretive(v, 1)
	later := v.Interface().(QueueHasRoomLater)
	x := Explanation{Reason: KeptFree{For: Key{"eve", "covert"}}, Advice: []Advice{later}, Size: &Size{Why: MakingRoom{Victims: []Key{{"eve", "covert"}}}}}
	masked := byUser.Explanation(x)
	text, err := json.Marshal(masked)
	if err != nil || strings.Contains(string(text), "covert") || strings.Contains(masked.Advice[0].Render(clock), "covert") {
		t.Errorf("an explanation tells of covert: %s %v", text, err)
	}
	if x.Reason.(KeptFree).For.Name != "covert" || x.Size.Why.(MakingRoom).Victims[0].Name != "covert" {
		t.Error("the explanation itself is changed")
	}
}

// TestMaskOfQueues: a sentence names the queue of a user by the login, and keeps its name for
// documents.
func TestMaskOfQueues(t *testing.T) {
	clock := func(Instant) string { return "12:00" }
	mask := Mask{Queue: func(name string) string { return map[string]string{"u-1001": "ann", "u-1009": "uid 1009"}[name] }}
	blocked := func(queue string, rule QueueRule) BlockedByQueue {
		return BlockedByQueue{Queue: queue, Rule: rule, Resource: "gpu", Allowed: 2000, Used: 2000, Asked: 1000, Missing: 1000,
			Borrowers: []QueueBorrower{{Queue: "u-1009", Amount: 3000}, {Queue: "vision", Amount: 1000}}}
	}
	const borrowed = "; borrowed by the queue of uid 1009: 3 GPUs, queue vision: 1 GPU"
	for want, reason := range map[string]Reason{
		"the queue of ann may use 2 GPUs and uses 2 GPUs, and this asks for 1 GPU" + borrowed:                                         blocked("u-1001", RuleLimit),
		"queue vision may not borrow: it is guaranteed 2 GPUs and uses 2 GPUs, and this asks for 1 GPU" + borrowed:                    blocked("vision", RuleBorrowing),
		"what is free is kept for queues that do not lend it; the queue of ann is short of 1 GPU, and this asks for 1 GPU" + borrowed: blocked("u-1001", RuleReserved),
		"the queue of ann is stopped: nothing new starts in it":                                                                       blocked("u-1001", RuleStopped),
		"the queue of ann was deleted; create it again, or name another":                                                              blocked("u-1001", RuleGone),
		"there is no queue u-1001; create it, or name another":                                                                        blocked("u-1001", RuleMissing),
	} {
		got := mask.Reason(reason)
		if text := got.Render(clock); text != want {
			t.Errorf("%s\nwant %s", text, want)
		}
		if queue := got.(BlockedByQueue).Queue; queue != reason.(BlockedByQueue).Queue {
			t.Errorf("the queue's name is %q", queue)
		}
	}
	later := mask.Explanation(Explanation{Advice: []Advice{QueueHasRoomLater{Queue: "u-1001", Resource: "gpu", Amount: 1000, After: []Key{{"ada", "x"}}}}}).Advice[0]
	if text := later.Render(clock); !strings.HasPrefix(text, "the queue of ann may ") {
		t.Errorf("advice: %s", text)
	}
}
