package cache

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data"
)

// kept are which of some parts are there.
func (s *shop) kept(views map[string]*data.View) string {
	s.Helper()
	var names []string
	for _, name := range []string{"a", "b", "c", "d"} {
		if v := views[name]; v != nil {
			if e := s.entries[Key(v, "")]; e != nil && e.whole {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

func TestRoom(t *testing.T) {
	const mb = 1 << 20
	used := map[string]bool{}
	var unknown error
	o := Options{Limit: 3 * mb, InUse: func(context.Context) (map[string]bool, error) { return used, unknown }}
	s := newShop(t, o)
	views, file := map[string]*data.View{}, map[string]string{}
	for i, name := range []string{"a", "b", "c", "d"} {
		file[name] = noise(uint64(i), mb)
		views[name] = s.put(name, map[string]string{"f": file[name]})
	}
	get := func(name string) (release func()) {
		t.Helper()
		_, release = s.want(views[name], "", map[string]string{"f": file[name]})
		return release
	}
	for _, name := range []string{"a", "b", "c", "a"} {
		get(name)()
	}
	get("d")()
	if diff := cmp.Diff("a c d", s.kept(views)); diff != "" {
		t.Errorf("b was used longest ago: %s", diff)
	}
	s.open(o)
	get("b")()
	if diff := cmp.Diff("a b d", s.kept(views)); diff != "" {
		t.Errorf("after a restart c was: %s", diff)
	}
	// a is used longest ago, and held; d is in use by somebody else.
	release := get("a")
	get("b")()
	used[Key(views["d"], "")] = true
	get("c")()
	if diff := cmp.Diff("a c d", s.kept(views)); diff != "" {
		t.Errorf("what is in use stays: %s", diff)
	}
	// Nothing is removed while it is not known what is in use, nor in vain.
	unknown = errors.New("the server is away")
	if _, _, err := s.Ensure(t.Context(), views["b"], "", nil); !errors.Is(err, unknown) {
		t.Errorf("%v", err)
	}
	unknown, used[Key(views["c"], "")] = nil, true
	_, _, err := s.Ensure(t.Context(), views["b"], "", nil)
	full, ok := errors.AsType[*RoomError](err)
	if !ok || full.Never() || full.Held != 3*mb || !strings.Contains(err.Error(), "no room for 1.0 MB") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff("a c d", s.kept(views)); diff != "" {
		t.Error(diff)
	}
	release()
	get("b")()
	if diff := cmp.Diff("b c d", s.kept(views)); diff != "" {
		t.Errorf("a is not held any more: %s", diff)
	}
	if sum := onDisk(t, s.dir); sum > o.Limit+1000 {
		t.Errorf("%d bytes are on disk", sum)
	}
	large := s.put("large", map[string]string{"f": noise(8, 4*mb)})
	_, _, err = s.Ensure(t.Context(), large, "", nil)
	if full, ok := errors.AsType[*RoomError](err); !ok || !full.Never() || !strings.Contains(err.Error(), "4.2 MB do not fit") {
		t.Errorf("%v", err)
	}
	if s.kept(views) != "b c d" {
		t.Error("something was removed in vain")
	}
}

// What nobody needs yet takes the room that is free, and no other.
func TestSpareRoom(t *testing.T) {
	const mb = 1 << 20
	s := newShop(t, Options{Limit: 2 * mb})
	views, file := map[string]*data.View{}, map[string]string{}
	for i, name := range []string{"a", "b", "c"} {
		file[name] = noise(uint64(i), mb)
		views[name] = s.put(name, map[string]string{"f": file[name]})
	}
	spare := func(name string, leave int64) error {
		_, release, err := s.EnsureSpare(t.Context(), "", views[name], "", leave)
		if err == nil {
			release()
		}
		return err
	}
	must(t, spare("a", 0))
	must(t, spare("b", 0))
	must(t, spare("a", 1<<62)) // it is there
	if _, is := errors.AsType[*RoomError](spare("c", 0)); !is || s.kept(views) != "a b" {
		t.Errorf("the third: %s are there", s.kept(views))
	}
	_, release := s.want(views["c"], "", map[string]string{"f": file["c"]})
	release()
	if s.kept(views) != "a c" && s.kept(views) != "b c" {
		t.Errorf("what somebody needs: %s are there", s.kept(views))
	}
	// The disk is not filled.
	s.open(Options{Limit: 9 * mb})
	disk, err := s.Disk()
	must(t, err)
	for _, name := range []string{"a", "b"} {
		if s.kept(map[string]*data.View{name: views[name]}) != "" {
			continue
		}
		if _, is := errors.AsType[*RoomError](spare(name, disk)); !is {
			t.Errorf("%s takes what is to be left free", name)
		}
		must(t, spare(name, 0))
	}
	if s.kept(views) != "a b c" {
		t.Errorf("%s are there", s.kept(views))
	}
}
