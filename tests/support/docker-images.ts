/** The images that the engine of a test run has. */

/**
 * `busybox`: one static program that is also `sh`. `bare`: no shell at all. `debian`: a real, minimal
 * Debian. `programs`: one with package managers and the like, which tests that need it import.
 */
export const DOCKER_IMAGES = {
  busybox: "test-busybox:latest",
  bare: "test-bare:latest",
  debian: "test-debian:latest",
  programs: "test-programs:latest",
} as const;
