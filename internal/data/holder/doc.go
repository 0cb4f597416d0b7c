// Package holder identifies the process that holds a lease of a store, so that another
// process on the same machine can find out that it has ended.
//
// It must not know the data that leases protect.
package holder
