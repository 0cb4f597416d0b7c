package trace

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestReadOpenbNodes(t *testing.T) {
	const head = "sn,cpu_milli,memory_mib,gpu,model\n"
	got, err := ReadOpenbNodes("nodes.csv", strings.NewReader(head+"a,64000,1024,2,P100\nb,32000,512,0,\n"))
	want := []OpenbNode{{"a", 64000, 1024, 2, "P100"}, {"b", 32000, 512, 0, ""}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, test := range []struct{ name, file, want string }{
		{"empty", "", "nodes.csv is empty"},
		{"no rows", head, "lists no node"},
		{"a missing column", "sn,cpu_milli,memory_mib,model\n", "no column is named gpu"},
		{"a negative number", head + "a,-1,1,0,\n", `nodes.csv, row 2, column cpu_milli: "-1" was given`},
		{"an overflowing number", head + "a,1,99999999999999999999,0,\n", "row 2, column memory_mib"},
		{"too many GPUs", head + "a,1,1,65,P100\n", "from 0 to 64"},
		{"no model", head + "a,1,1,1,\n", "the model of the node's GPUs"},
		{"a name twice", head + "a,1,1,0,\na,1,1,0,\n", "row 2 has the same"},
		{"no name", head + ",1,1,0,\n", "column sn"},
		{"a short row", head + "a,1\n", "row 2"},
	} {
		if _, err := ReadOpenbNodes("nodes.csv", strings.NewReader(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want an error with %q", test.name, err, test.want)
		}
	}
}

func TestReadOpenbPods(t *testing.T) {
	const head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	got, err := ReadOpenbPods("pods.csv", strings.NewReader(head+"a,1000,5,0,0,\nb,1,2,1,460,V100|A10|V100\nc,1,2,8,1000,\n"))
	want := []OpenbPod{{"a", 1000, 5, 0, 0, nil}, {"b", 1, 2, 0, 460, []string{"A10", "V100"}}, {"c", 1, 2, 8, 0, nil}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	if got, err := ReadOpenbPods("p", strings.NewReader("num_gpu,gpu_milli,name,memory_mib,cpu_milli\n1,1000,a,2,3\n")); err != nil || got[0].MilliCPU != 3 || got[0].DemandMilli() != 1000 {
		t.Errorf("columns in another order, no gpu_spec: %+v, %v", got, err)
	}
	for _, test := range []struct{ name, file, want string }{
		{"no rows", head, "lists no pod"},
		{"a missing column", "name,cpu_milli\n", "memory_mib or num_gpu or gpu_milli"},
		{"a negative number", head + "a,1,1,1,-5,\n", `column gpu_milli: "-5"`},
		{"more than a GPU of each", head + "a,1,1,1,1001,\n", "from 0 to 1000"},
		{"milli without a GPU", head + "a,1,1,0,5,\n", "0 where num_gpu is 0"},
		{"a GPU without milli", head + "a,1,1,1,0,\n", "where num_gpu is not 0"},
		{"parts of several GPUs", head + "a,1,1,2,500,\n", "1000 where num_gpu is more than 1"},
		{"no number", head + "a,x,1,0,0,\n", `column cpu_milli: "x"`},
		{"an empty model", head + "a,1,1,1,5,P100|\n", "column gpu_spec"},
	} {
		if _, err := ReadOpenbPods("pods.csv", strings.NewReader(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want an error with %q", test.name, err, test.want)
		}
	}
}

func TestReadMillionOpenbPods(t *testing.T) {
	var b strings.Builder
	b.WriteString("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n")
	for i := range 1_000_000 {
		fmt.Fprintf(&b, "p%d,1000,5,1,%d\n", i, 1+i%1000)
	}
	pods, err := ReadOpenbPods("pods.csv", strings.NewReader(b.String()))
	if err != nil || len(pods) != 1_000_000 {
		t.Errorf("%d pods, %v", len(pods), err)
	}
}
