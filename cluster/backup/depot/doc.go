// Package depot keeps backups under names: in a folder, or in a bucket of an S3-compatible store.
//
//	Job     makes a backup, keeps it in a depot, reads it back, and removes older ones
//	Depot   keeps bytes under names
//	Folder  name.part → written, fsynced, read back → renamed to name, the folder fsynced
//	Bucket  multipart upload → completed only when the backup is whole → read back, else removed
//
// So a backup's name stands for a whole backup only, wherever the process is killed. A killed process leaves a .part
// file or an incomplete upload. The next backup into the folder removes the file, and stores remove the upload by a
// lifecycle rule.
//
// No error contains a credential: they travel in headers, and URLs with a password are refused.
//
// # Why not otherwise
//
//   - Not a whole S3 client: a depot needs seven requests, which s3.go sends. minio-go signs them and knows the hosts
//     of stores, by two small packages. All of minio-go takes 6 s of processor time to compile, the AWS SDK 12 s.
//   - Not a rename in a bucket: an object appears whole, when its upload is completed.
package depot
