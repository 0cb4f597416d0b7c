// Package podrecord stores a record of each pod on disk, by which the next Muster
// process recognises the pod.
//
//   - A [Record] is a file in a pod's folder. Its [Past] sums up attempts whose folders
//     are gone.
//   - A [Fate] is the decision about processes of an earlier Muster process: [Classify]
//     compares their record with the pods in the API.
//
// The package must not know processes. Its caller adopts or stops them.
package podrecord
