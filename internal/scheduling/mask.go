package scheduling

import (
	"reflect"
	"slices"
)

// Mask rewrites the names in a reason. A field that is nil keeps the names.
type Mask struct {
	// Key returns the name of a job, pod, claim or quota to show. A key without a name
	// stands for the user or namespace that Namespace names; several of these that say the
	// same become one.
	Key func(Key) Key
	// Process returns a process to show.
	Process func(Process) Process
	// Queue returns the login to show for the queue of a user; empty for other queues.
	Queue func(name string) string
}

// Reason returns a copy of a reason with other names.
func (m Mask) Reason(r Reason) Reason {
	if r == nil {
		return nil
	}
	return m.copied(reflect.ValueOf(r)).Interface().(Reason)
}

// Explanation returns a copy of an explanation with other names.
func (m Mask) Explanation(x Explanation) Explanation {
	return m.copied(reflect.ValueOf(x)).Interface().(Explanation)
}

// copied returns a copy of a value, masked.
func (m Mask) copied(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	m.walk(out)
	return out
}

// walk masks what an addressable value holds, and copies what it refers to.
func (m Mask) walk(v reflect.Value) {
	if m.leaf(v) {
		return
	}
	m.queue(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				m.walk(v.Field(i))
			}
		}
	case reflect.Slice:
		m.slice(v)
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(m.copied(v.Elem()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			to := reflect.New(v.Type().Elem())
			to.Elem().Set(m.copied(v.Elem()))
			v.Set(to)
		}
	}
}

// leaf masks a value that is or has a name; false for any other.
func (m Mask) leaf(v reflect.Value) bool {
	switch of := v.Addr().Interface().(type) {
	case *Key:
		*of = m.key(*of)
	case *Process:
		if m.Process != nil {
			*of = m.Process(*of)
		}
	case *GPUHolder:
		if of.Key = m.key(of.Key); of.Name == "" {
			of.Pod, of.Claim = false, false
		}
	case *QueueHolder:
		if of.Key = m.key(of.Key); of.Name == "" {
			of.Pod = false
		}
	default:
		return false
	}
	return true
}

// queue adds the login to a value that names a queue.
func (m Mask) queue(v reflect.Value) {
	if m.Queue == nil {
		return
	}
	switch of := v.Addr().Interface().(type) {
	case *BlockedByQueue:
		of.Login = m.Queue(of.Queue)
	case *QueueBorrower:
		of.Login = m.Queue(of.Queue)
	case *QueueHasRoomLater:
		of.Login = m.Queue(of.Queue)
	}
}

func (m Mask) key(k Key) Key {
	if m.Key == nil || k == (Key{}) {
		return k
	}
	return m.Key(k)
}

// slice masks the elements of a copy of a slice, and makes one of those that became the same.
func (m Mask) slice(v reflect.Value) {
	if v.IsNil() {
		return
	}
	copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(copied, v)
	for i := range copied.Len() {
		m.walk(copied.Index(i))
	}
	v.Set(copied)
	switch list := v.Addr().Interface().(type) {
	case *[]GPUHolder:
		*list = merged(*list, func(h GPUHolder) Key { return h.Key }, func(into *GPUHolder, h GPUHolder) {
			into.Count += h.Count
			into.Share.Milli += h.Share.Milli
			into.Share.MiB += h.Share.MiB
			into.Since = earlier(into.Since, h.Since)
		})
	case *[]QueueHolder:
		*list = merged(*list, func(h QueueHolder) Key { return h.Key }, func(into *QueueHolder, h QueueHolder) {
			into.Amount += h.Amount
			into.Since = earlier(into.Since, h.Since)
		})
	case *[]Key:
		*list = merged(*list, func(k Key) Key { return k }, func(*Key, Key) {})
	}
}

// merged makes one of the elements whose keys are the same and have no name.
func merged[T any](list []T, key func(T) Key, add func(into *T, one T)) []T {
	out := list[:0]
	for _, one := range list {
		at := slices.IndexFunc(out, func(have T) bool { return key(have) == key(one) })
		if at < 0 || key(one).Name != "" {
			out = append(out, one)
			continue
		}
		add(&out[at], one)
	}
	return out
}

// earlier is the earlier of two times; one that is not known does not count.
func earlier(a, b Instant) Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
