// Package podrecord owns what is kept on disk of each pod, so that the next Muster
// recognises it.
//
//   - A [Record] lies in a pod's folder. Its [Past] sums up attempts whose folders are gone.
//   - A [Fate] is what becomes of processes that an earlier Muster left: [Classify]
//     compares their record with the pods in the API.
//
// It must not know processes, nor who carries out a fate.
package podrecord
