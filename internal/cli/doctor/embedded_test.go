//go:build embedded

package doctor_test

import (
	"testing"

	"github.com/muster-dev/muster/internal/cli/doctor"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// TestDoctorOnACluster asks before and after an installation.
func TestDoctorOnACluster(t *testing.T) {
	server := rehearsal.StartCluster(t)
	server.Verbs = append(server.Verbs, doctor.New)
	server.Run(t, []rehearsal.Step{
		{Args: "doctor", Code: 1, Says: "missing: datasets.muster.dev, gangs.muster.dev"},
		{Args: "install --no-wait", Says: "is applied"},
		{Args: "doctor", Code: 1, Says: "0 of 2 managers ready"},
		{Args: "doctor -o json", Code: 1, Says: `"check": "clocks"`},
		{Args: "doctor", Code: 1, Says: "as this program knows them"},
		{Args: "doctor", Code: 1, Says: "no node has GPUs"},
		{Args: "install --no-wait --set data.gateway.enabled=true,data.s3.endpoint=http://127.0.0.1:1,data.s3.bucket=b,data.s3.secret=s", Says: "is applied"},
		{Args: "doctor", Code: 1, Says: "no replica of the manager is behind muster-gateway.muster-system.svc:6480"},
	})
}
