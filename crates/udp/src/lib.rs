//! UDP sockets with segmentation and receive offload, packet information and marks.
