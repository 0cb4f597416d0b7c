// Package room watches the room that is left on the disk of an embedded Muster's
// home, so that a full disk never locks its owner out.
//
// A disk is low below [Low] free bytes or [LowInodes] free inodes. Then only removal works: data,
// jobs, pipelines and environments can be removed, and nothing new is accepted. The reserve is a
// folder of bytes and inodes in the home. Muster releases the reserve when the disk is nearly full,
// because etcd needs some room even for removals. Muster makes it again once there is room.
//
// It must not know the files on the disk, or its callers.
package room
