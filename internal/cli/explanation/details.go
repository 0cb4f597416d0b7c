package explanation

import (
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// Details are the figures of a reason or an advice, as a document shows them:
// names as in the API (lowerCamel), times as RFC 3339 in UTC, durations in
// seconds under names that end in Seconds, amounts of CPU in thousandths and of
// memory in bytes. What is not known, or of which there is none, is left out.
// What names an object has its namespace and name, or user alone if its name is not
// shown. It is nil where there are no
// figures.
func Details(of any) any {
	v, ok := detail(reflect.ValueOf(of))
	if fields, is := v.(map[string]any); !ok || is && len(fields) == 0 {
		return nil
	}
	return v
}

// detail is one value; false if there is nothing to show.
func detail(v reflect.Value) (any, bool) {
	switch v.Kind() {
	case reflect.Invalid:
		return nil, false
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil, false
		}
		if reason, is := v.Interface().(scheduling.Reason); is {
			return reasonDetail(reason), true
		}
		return detail(v.Elem())
	case reflect.Struct:
		if key, is := v.Interface().(scheduling.Key); is && hides(key) {
			return map[string]any{"user": key.Namespace}, true
		}
		fields := map[string]any{}
		collect(v, fields)
		return fields, true
	case reflect.Slice:
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			if one, ok := detail(v.Index(i)); ok {
				out = append(out, one)
			}
		}
		return out, len(out) > 0
	case reflect.String:
		return v.String(), v.String() != ""
	case reflect.Int, reflect.Int32, reflect.Int64:
		switch at := v.Interface().(type) {
		case scheduling.Instant:
			return moment(at), at != 0
		case estimate.Span:
			return int64(at / estimate.Second), true
		}
		return v.Int(), true
	}
	return v.Interface(), true
}

// hides reports whether a key stands for its user, and not for an object.
func hides(k scheduling.Key) bool { return k.Name == "" && k.Namespace != "" }

// reasonDetail is a reason within another: its code beside its figures.
func reasonDetail(r scheduling.Reason) any {
	fields := map[string]any{"code": string(r.Code())}
	if v := reflect.Indirect(reflect.ValueOf(r)); v.Kind() == reflect.Struct {
		collect(v, fields)
	}
	return fields
}

// collect adds the fields of a struct; those of what it embeds are its own.
func collect(v reflect.Value, into map[string]any) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		if key, is := v.Field(i).Interface().(scheduling.Key); is && field.Anonymous && hides(key) {
			into["user"] = key.Namespace
			continue
		}
		if field.Anonymous && v.Field(i).Kind() == reflect.Struct {
			collect(v.Field(i), into)
			continue
		}
		name := lowerCamel(field.Name)
		if field.Type == reflect.TypeFor[estimate.Span]() {
			name += "Seconds"
		}
		if value, ok := detail(v.Field(i)); ok {
			into[name] = value
		}
	}
}

// units are names that are not words.
var units = map[string]string{"MiB": "mib"}

// lowerCamel is a field's name as the API would write it: "keptFor", "gpus",
// "uuid", "toGPUs".
func lowerCamel(name string) string {
	if unit, ok := units[name]; ok {
		return unit
	}
	letters := []rune(name)
	run := slices.IndexFunc(letters, func(r rune) bool { return !unicode.IsUpper(r) })
	switch {
	case run < 0 || run > 1 && string(letters[run:]) == "s":
		return strings.ToLower(name)
	case run > 1:
		run-- // the last of them begins a word
	}
	return strings.ToLower(string(letters[:run])) + string(letters[run:])
}
