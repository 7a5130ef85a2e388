package apple

// selector is an index of the table of selectors.
type selector int

// Every selector that the driver sends, by subject.
const (
	// all objects
	selAlloc selector = iota
	selNew
	selRetain
	selRelease
	selRespondsToSelector
	// Foundation
	selInitWithBytes
	selUTF8String
	selLengthOfBytes
	selCount
	selObjectAtIndex
	selLongLongValue
	selCode
	selDomain
	selLocalizedDescription
	// MTLDevice: what it is
	selName
	selSupportsFamily
	selHasUnifiedMemory
	selMaxBufferLength
	selRecommendedMaxWorkingSetSize
	// MTLDevice: what it makes
	selNewCommandQueue
	selNewFence
	selNewSharedEvent
	selNewBuffer
	selNewBufferNoCopy
	selNewLibrary
	selNewPipeline
	selNewResidencySet
	// compiling
	selSetLanguageVersion
	selSetFastMathEnabled
	selSetMathMode
	selSetMathFloatingPointFunctions
	selSetConstantValue
	selNewFunction
	selMaxTotalThreads
	selStaticThreadgroupMemory
	selThreadExecutionWidth
	// memory
	selContents
	selAddResidencySet
	selAddAllocation
	selRemoveAllocation
	selCommitSet
	selRequestResidency
	// command buffers
	selCommandBuffer
	selComputeEncoder
	selEncodeSignalEvent
	selCommit
	selWaitUntilCompleted
	selStatus
	selError
	selGPUStartTime
	selGPUEndTime
	// encoders
	selWaitForFence
	selUpdateFence
	selEndEncoding
	selSetPipeline
	selSetBuffers
	selSetBytes
	selDispatchThreadgroups
	selMemoryBarrier
	// events
	selSignaledValue
	selWaitUntilSignaledValue

	selectorCount
)

// selectors is the table: no Mac runs in CI, so tests check every message in the sources against it.
var selectors = [selectorCount]struct {
	name      string
	arguments int
	class     string  // or protocol that declares it
	since     float64 // macOS that brought it; over the floor it is sent only to what responds to it
}{
	selAlloc:              {"alloc", 0, "NSObject", 10.0},
	selNew:                {"new", 0, "NSObject", 10.0},
	selRetain:             {"retain", 0, "NSObject", 10.0},
	selRelease:            {"release", 0, "NSObject", 10.0},
	selRespondsToSelector: {"respondsToSelector:", 1, "NSObject", 10.0},

	selInitWithBytes:        {"initWithBytes:length:encoding:", 3, "NSString", 10.0},
	selUTF8String:           {"UTF8String", 0, "NSString", 10.0},
	selLengthOfBytes:        {"lengthOfBytesUsingEncoding:", 1, "NSString", 10.0},
	selCount:                {"count", 0, "NSArray", 10.0},
	selObjectAtIndex:        {"objectAtIndex:", 1, "NSArray", 10.0},
	selLongLongValue:        {"longLongValue", 0, "NSNumber", 10.0},
	selCode:                 {"code", 0, "NSError", 10.2},
	selDomain:               {"domain", 0, "NSError", 10.2},
	selLocalizedDescription: {"localizedDescription", 0, "NSError", 10.2},

	selName:                         {"name", 0, "MTLDevice", 10.11},
	selSupportsFamily:               {"supportsFamily:", 1, "MTLDevice", 10.15},
	selHasUnifiedMemory:             {"hasUnifiedMemory", 0, "MTLDevice", 10.15},
	selMaxBufferLength:              {"maxBufferLength", 0, "MTLDevice", 10.14},
	selRecommendedMaxWorkingSetSize: {"recommendedMaxWorkingSetSize", 0, "MTLDevice", 10.12},

	selNewCommandQueue: {"newCommandQueue", 0, "MTLDevice", 10.11},
	selNewFence:        {"newFence", 0, "MTLDevice", 10.13},
	selNewSharedEvent:  {"newSharedEvent", 0, "MTLDevice", 10.14},
	selNewBuffer:       {"newBufferWithLength:options:", 2, "MTLDevice", 10.11},
	selNewBufferNoCopy: {"newBufferWithBytesNoCopy:length:options:deallocator:", 4, "MTLDevice", 10.11},
	selNewLibrary:      {"newLibraryWithSource:options:error:", 3, "MTLDevice", 10.11},
	selNewPipeline:     {"newComputePipelineStateWithFunction:error:", 2, "MTLDevice", 10.11},
	selNewResidencySet: {"newResidencySetWithDescriptor:error:", 2, "MTLDevice", 15.0},

	selSetLanguageVersion:            {"setLanguageVersion:", 1, "MTLCompileOptions", 10.11},
	selSetFastMathEnabled:            {"setFastMathEnabled:", 1, "MTLCompileOptions", 10.11},
	selSetMathMode:                   {"setMathMode:", 1, "MTLCompileOptions", 15.0},
	selSetMathFloatingPointFunctions: {"setMathFloatingPointFunctions:", 1, "MTLCompileOptions", 15.0},
	selSetConstantValue:              {"setConstantValue:type:atIndex:", 3, "MTLFunctionConstantValues", 10.12},
	selNewFunction:                   {"newFunctionWithName:constantValues:error:", 3, "MTLLibrary", 10.12},
	selMaxTotalThreads:               {"maxTotalThreadsPerThreadgroup", 0, "MTLComputePipelineState", 10.11},
	selStaticThreadgroupMemory:       {"staticThreadgroupMemoryLength", 0, "MTLComputePipelineState", 10.13},
	selThreadExecutionWidth:          {"threadExecutionWidth", 0, "MTLComputePipelineState", 10.11},

	selContents:         {"contents", 0, "MTLBuffer", 10.11},
	selAddResidencySet:  {"addResidencySet:", 1, "MTLCommandQueue", 15.0},
	selAddAllocation:    {"addAllocation:", 1, "MTLResidencySet", 15.0},
	selRemoveAllocation: {"removeAllocation:", 1, "MTLResidencySet", 15.0},
	selCommitSet:        {"commit", 0, "MTLResidencySet", 15.0},
	selRequestResidency: {"requestResidency", 0, "MTLResidencySet", 15.0},

	selCommandBuffer:      {"commandBufferWithUnretainedReferences", 0, "MTLCommandQueue", 10.11},
	selComputeEncoder:     {"computeCommandEncoderWithDispatchType:", 1, "MTLCommandBuffer", 10.14},
	selEncodeSignalEvent:  {"encodeSignalEvent:value:", 2, "MTLCommandBuffer", 10.14},
	selCommit:             {"commit", 0, "MTLCommandBuffer", 10.11},
	selWaitUntilCompleted: {"waitUntilCompleted", 0, "MTLCommandBuffer", 10.11},
	selStatus:             {"status", 0, "MTLCommandBuffer", 10.11},
	selError:              {"error", 0, "MTLCommandBuffer", 10.11},
	selGPUStartTime:       {"GPUStartTime", 0, "MTLCommandBuffer", 10.15},
	selGPUEndTime:         {"GPUEndTime", 0, "MTLCommandBuffer", 10.15},

	selWaitForFence:         {"waitForFence:", 1, "MTLComputeCommandEncoder", 10.13},
	selUpdateFence:          {"updateFence:", 1, "MTLComputeCommandEncoder", 10.13},
	selEndEncoding:          {"endEncoding", 0, "MTLCommandEncoder", 10.11},
	selSetPipeline:          {"setComputePipelineState:", 1, "MTLComputeCommandEncoder", 10.11},
	selSetBuffers:           {"setBuffers:offsets:withRange:", 3, "MTLComputeCommandEncoder", 10.11},
	selSetBytes:             {"setBytes:length:atIndex:", 3, "MTLComputeCommandEncoder", 10.11},
	selDispatchThreadgroups: {"dispatchThreadgroups:threadsPerThreadgroup:", 2, "MTLComputeCommandEncoder", 10.11},
	selMemoryBarrier:        {"memoryBarrierWithScope:", 1, "MTLComputeCommandEncoder", 10.14},

	selSignaledValue:          {"signaledValue", 0, "MTLSharedEvent", 10.14},
	selWaitUntilSignaledValue: {"waitUntilSignaledValue:timeoutMS:", 2, "MTLSharedEvent", 12.0},
}

// class is an index of the table of classes.
type class int

// The classes that the driver makes objects of; the rest comes from functions and methods.
const (
	classString class = iota
	classCompileOptions
	classConstantValues
	classResidencySetDescriptor

	classCount
)

var classes = [classCount]struct {
	name  string
	since float64 // macOS that brought it; over the floor it may be missing
}{
	classString:                 {"NSString", 10.0},
	classCompileOptions:         {"MTLCompileOptions", 10.11},
	classConstantValues:         {"MTLFunctionConstantValues", 10.12},
	classResidencySetDescriptor: {"MTLResidencySetDescriptor", 15.0},
}

// function is an index of the table of C functions.
type function int

// The C functions that the driver calls.
const (
	fnPoolPush function = iota
	fnPoolPop
	fnThread
	fnCopyAllDevices
	fnDefaultDevice
	fnServiceMatching
	fnMatchingService
	fnCreateProperty
	fnReleaseService

	functionCount
)

var functions = [functionCount]struct {
	name      string
	arguments int
}{
	fnPoolPush:        {"objc_autoreleasePoolPush", 0},
	fnPoolPop:         {"objc_autoreleasePoolPop", 1},
	fnThread:          {"pthread_self", 0},
	fnCopyAllDevices:  {"MTLCopyAllDevices", 0},
	fnDefaultDevice:   {"MTLCreateSystemDefaultDevice", 0},
	fnServiceMatching: {"IOServiceMatching", 1},
	fnMatchingService: {"IOServiceGetMatchingService", 2},
	fnCreateProperty:  {"IORegistryEntryCreateCFProperty", 4},
	fnReleaseService:  {"IOObjectRelease", 1},
}

// floor is the oldest macOS that runs the kernels: the first with MSL 3.1.
const floor = 14.0
