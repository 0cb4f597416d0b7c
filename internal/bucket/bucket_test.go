package bucket

import "testing"

func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, o := range map[string]Options{
		"no scheme":    {Endpoint: "s3.test", Bucket: "b"},
		"a path":       {Endpoint: "https://s3.test/b", Bucket: "b"},
		"a user":       {Endpoint: "https://me:secret@s3.test", Bucket: "b"},
		"no bucket":    {Endpoint: "https://s3.test"},
		"half of keys": {Endpoint: "https://s3.test", Bucket: "b", AccessKey: "a"},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
