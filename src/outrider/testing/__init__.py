"""Help with testing: throwaway servers, contracts and fakes, for applications and for us."""
