package enclosure

import (
	"math"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMapping(t *testing.T) {
	for own, want := range map[uint32][]syscall.SysProcIDMap{
		1000:  {{ContainerID: 0, HostID: 200000, Size: 1000}, {ContainerID: 1000, HostID: 1000, Size: 1}, {ContainerID: 1001, HostID: 201001, Size: 64535}},
		65535: {{ContainerID: 0, HostID: 200000, Size: 65535}, {ContainerID: 65535, HostID: 65535, Size: 1}},
		70000: {{ContainerID: 0, HostID: 200000, Size: 65536}, {ContainerID: 70000, HostID: 70000, Size: 1}},
	} {
		got := mapping(own, 200000)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("user %d:\n%s", own, diff)
		}
		if n, ok := outside(got, own); !ok || n != own {
			t.Errorf("user %d is %d, %t", own, n, ok)
		}
	}
}

func TestVolumeMapping(t *testing.T) {
	for _, own := range []uint32{1, 1000, 70000, 400000, math.MaxUint32 - 1} {
		lines := volumeMapping(own, 200000, 200000)
		for disk, want := range map[uint32]uint32{own: 200000, 0: 0, 999: 999, 199999: 199999, 265536: 265536, 500000: 500000} {
			if n, ok := outside(lines, disk); !ok || n != want {
				t.Errorf("user %d: %d on the disk is %d, %t; want %d", own, disk, n, ok, want)
			}
		}
		for _, disk := range []uint32{200000, 265535, math.MaxUint32} {
			if n, ok := outside(lines, disk); ok {
				t.Errorf("user %d: %d on the disk is %d", own, disk, n)
			}
		}
		taken := map[int]bool{}
		for _, l := range lines {
			if taken[l.HostID] || l.Size < 1 {
				t.Errorf("user %d: two numbers on the disk are one, or a line is empty: %+v", own, lines)
			}
			taken[l.HostID] = true
		}
	}
}
