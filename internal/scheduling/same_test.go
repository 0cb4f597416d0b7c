package scheduling

import (
	"reflect"
	"testing"
)

// Every field counts, also one that is added later: each is changed, at every
// depth, and must be noticed.
func TestSameSeesEveryField(t *testing.T) {
	node := func() any { n := full[Node](t); return &n }
	request := func() any { r := full[Request](t); return &r }
	holding := func() any { h := full[Holding](t); return &h }
	for _, tt := range []struct {
		name string
		make func() any
		same func(a, b any) bool
	}{
		{"Node", node, func(a, b any) bool { return a.(*Node).same(b.(*Node)) }},
		{"Request", request, func(a, b any) bool { return a.(*Request).same(b.(*Request)) }},
		{"Holding", holding, func(a, b any) bool { return a.(*Holding).same(*b.(*Holding)) }},
	} {
		if !tt.same(tt.make(), tt.make()) {
			t.Errorf("%s: equals differ", tt.name)
		}
		count := leaves(reflect.ValueOf(tt.make()).Elem(), -1)
		for i := range count {
			other := tt.make()
			leaves(reflect.ValueOf(other).Elem(), i)
			if reflect.DeepEqual(tt.make(), other) {
				t.Fatalf("%s: leaf %d was not changed", tt.name, i)
			}
			if tt.same(tt.make(), other) {
				t.Errorf("%s: a change of leaf %d is not noticed: %+v", tt.name, i, other)
			}
		}
	}
}

// full is a value of which every field is set.
func full[T any](t *testing.T) T {
	t.Helper()
	var out T
	fill(reflect.ValueOf(&out).Elem())
	return out
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.7)
	default:
		v.SetInt(7)
	}
}

// leaves counts the values that are no composites, and changes the one with
// this number.
func leaves(v reflect.Value, change int) int {
	n := 0
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				n += leaves(v.Field(i), change-n)
			}
		}
	case reflect.Pointer:
		n += leaves(v.Elem(), change)
	case reflect.Slice:
		n += leaves(v.Index(0), change)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(reflect.ValueOf("key")))
		n += leaves(value, change)
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.String:
		n++
		if change == 0 {
			v.SetString("y")
		}
	case reflect.Bool:
		n++
		if change == 0 {
			v.SetBool(false)
		}
	case reflect.Float64:
		n++
		if change == 0 {
			v.SetFloat(0.8)
		}
	default:
		n++
		if change == 0 {
			v.SetInt(8)
		}
	}
	return n
}
